// Drives the laws of bpf/laws.h from the lines of standard input; answers each with a line. Called by twins.rs.

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../bpf/laws.h"

int main(int count, char **words)
{
    struct veno veno = {0};
    struct westwood westwood = {0};
    bool is_veno = count > 1 && !strcmp(words[1], "veno");
    char kind;
    uint64_t now_ns, rtt_ns, srtt_ns;
    uint32_t ack, acked, mss, outstanding, may_grow;
    struct window window;
    // a: an ACK; l: a loss; t: a timeout.
    while (scanf(" %c %" SCNu64 " %" SCNu64 " %" SCNu64 " %u %u %u %u %u %u %u", &kind, &now_ns, &rtt_ns, &srtt_ns,
                 &ack, &acked, &mss, &outstanding, &may_grow, &window.cwnd, &window.ssthresh) == 11) {
        if (kind == 'l') {
            window.ssthresh = is_veno ? veno_kept(&veno, window.cwnd) : westwood_kept(&westwood, window.cwnd);
        } else if (kind == 't') {
            window.ssthresh = is_veno ? veno_kept(&veno, window.cwnd) : westwood_timed_out(&westwood, mss);
        } else if (is_veno) {
            veno_learn(&veno, rtt_ns);
            // The first ACK that may grow ends what the sender left its state Open for.
            if (veno.is_away && may_grow)
                veno_state(&veno, true);
            if (may_grow)
                veno_grow(&veno, acked, &window);
        } else {
            westwood_learn(&westwood, rtt_ns);
            westwood_arrived(&westwood, now_ns, ack, outstanding, mss);
            if (may_grow)
                westwood_grow(&westwood, acked, mss, &window);
        }
        printf("%u %u\n", window.cwnd, window.ssthresh);
    }
    return 0;
}
