// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
//
// Congestion controls of the kernel that decide in it, without a process beside them: Veno and Westwood+.
// The laws are in laws.h; recovery is the kernel's own. src/twin.rs registers them, under digits of their own in place
// of Lh0Id0Tk.

#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "laws.h"

// Functions of the kernel for congestion controls are for programs whose licence is compatible with its own.
char _license[] SEC("license") = "Dual MIT/GPL";

// CA_EVENT_TX_START, CA_EVENT_CWND_RESTART, CA_EVENT_LOSS and TCP_CA_Open of the kernel.
#define EVENT_START 0
#define EVENT_RESTART 1
#define EVENT_REDUCED 2
#define EVENT_LOSS 3
#define STATE_OPEN 0

// What is read and written of the kernel's structures; the loader finds their places in the running kernel.
#define OF_KERNEL __attribute__((preserve_access_index))

struct sock {
    int of_the_kernel;
};

struct inet_connection_sock {
    __u64 icsk_ca_priv[13];
} OF_KERNEL;

struct tcp_sock {
    __u32 snd_cwnd, snd_ssthresh, snd_una, mss_cache, packets_out, max_packets_out;
    __u8 is_cwnd_limited : 1;
} OF_KERNEL;

struct ack_sample {
    __s32 rtt_us;
} OF_KERNEL;

struct tcp_congestion_ops {
    __u32 (*ssthresh)(struct sock *sk);
    void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
    void (*set_state)(struct sock *sk, __u8 state);
    void (*cwnd_event)(struct sock *sk, int event);
    void (*in_ack_event)(struct sock *sk, __u32 flags);
    void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
    __u32 (*undo_cwnd)(struct sock *sk);
    void (*init)(struct sock *sk);
    __u32 flags;
    char name[16];
};

extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

INLINE void *law_of(struct sock *sk)
{
    return ((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

// Whether the window is what holds the sender back: it was full, or in slow start half full.
INLINE bool is_limited(struct tcp_sock *tp)
{
    if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
        return true;
    return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

INLINE __u64 rtt_ns(const struct ack_sample *sample)
{
    return sample->rtt_us > 0 ? sample->rtt_us * NS_PER_US : 0;
}

SEC("struct_ops/veno_init")
void BPF_PROG(veno_init, struct sock *sk)
{
    __builtin_memset(law_of(sk), 0, sizeof(struct veno));
}

SEC("struct_ops/veno_sampled")
void BPF_PROG(veno_sampled, struct sock *sk, const struct ack_sample *sample)
{
    veno_learn(law_of(sk), rtt_ns(sample));
}

SEC("struct_ops/veno_changes")
void BPF_PROG(veno_changes, struct sock *sk, __u8 state)
{
    veno_state(law_of(sk), state == STATE_OPEN);
}

SEC("struct_ops/veno_event")
void BPF_PROG(veno_event, struct sock *sk, int event)
{
    struct veno *law = law_of(sk);
    if (event != EVENT_START && event != EVENT_RESTART)
        return;
    // It sends again with nothing outstanding: what was known of the path may be old.
    law->base_us = 0;
    law->skips = false;
    veno_state(law, true);
}

SEC("struct_ops/veno_acked")
void BPF_PROG(veno_acked, struct sock *sk, __u32 ack, __u32 acked)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    if (!is_limited(tp))
        return;
    struct window window = {tp->snd_cwnd, tp->snd_ssthresh};
    veno_grow(law_of(sk), acked, &window);
    tp->snd_cwnd = window.cwnd;
}

SEC("struct_ops/veno_ssthresh")
__u32 BPF_PROG(veno_ssthresh, struct sock *sk)
{
    return veno_kept(law_of(sk), ((struct tcp_sock *)sk)->snd_cwnd);
}

SEC("struct_ops/twin_undo")
__u32 BPF_PROG(twin_undo, struct sock *sk)
{
    return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops/westwood_init")
void BPF_PROG(westwood_init, struct sock *sk)
{
    struct westwood *law = law_of(sk);
    __builtin_memset(law, 0, sizeof(*law));
    law->una = ((struct tcp_sock *)sk)->snd_una;
}

SEC("struct_ops/westwood_arrives")
void BPF_PROG(westwood_arrives, struct sock *sk, __u32 flags)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    westwood_arrived(law_of(sk), bpf_ktime_get_ns(), tp->snd_una, tp->packets_out != 0, tp->mss_cache);
}

SEC("struct_ops/westwood_sampled")
void BPF_PROG(westwood_sampled, struct sock *sk, const struct ack_sample *sample)
{
    westwood_learn(law_of(sk), rtt_ns(sample));
}

SEC("struct_ops/westwood_acked")
void BPF_PROG(westwood_acked, struct sock *sk, __u32 ack, __u32 acked)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    if (!is_limited(tp))
        return;
    struct window window = {tp->snd_cwnd, tp->snd_ssthresh};
    westwood_grow(law_of(sk), acked, tp->mss_cache, &window);
    tp->snd_cwnd = window.cwnd;
    tp->snd_ssthresh = window.ssthresh;
}

SEC("struct_ops/westwood_ssthresh")
__u32 BPF_PROG(westwood_ssthresh, struct sock *sk)
{
    return westwood_kept(law_of(sk), ((struct tcp_sock *)sk)->snd_cwnd);
}

SEC("struct_ops/westwood_event")
void BPF_PROG(westwood_event, struct sock *sk, int event)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct westwood *law = law_of(sk);
    if (event == EVENT_LOSS) {
        tp->snd_ssthresh = westwood_timed_out(law, tp->mss_cache);
    } else if (event == EVENT_REDUCED) {
        law->is_pending = false;
        tp->snd_ssthresh = westwood_pipe(law, tp->mss_cache);
        tp->snd_cwnd = tp->snd_ssthresh;
    }
}

SEC("struct_ops/westwood_undo")
__u32 BPF_PROG(westwood_undo, struct sock *sk)
{
    struct westwood *law = law_of(sk);
    law->is_pending = false;
    return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops lhveno_Lh0Id0Tk = {
    .init = (void *)veno_init,
    .ssthresh = (void *)veno_ssthresh,
    .cong_avoid = (void *)veno_acked,
    .pkts_acked = (void *)veno_sampled,
    .set_state = (void *)veno_changes,
    .cwnd_event = (void *)veno_event,
    .undo_cwnd = (void *)twin_undo,
    // Any program may choose it for a socket of its own.
    .flags = 1,
    .name = "lhveno_Lh0Id0Tk",
};

SEC(".struct_ops")
struct tcp_congestion_ops lhwest_Lh0Id0Tk = {
    .init = (void *)westwood_init,
    .ssthresh = (void *)westwood_ssthresh,
    .cong_avoid = (void *)westwood_acked,
    .cwnd_event = (void *)westwood_event,
    .in_ack_event = (void *)westwood_arrives,
    .pkts_acked = (void *)westwood_sampled,
    .undo_cwnd = (void *)westwood_undo,
    .flags = 1,
    .name = "lhwest_Lh0Id0Tk",
};
