// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
//
// Veno and Westwood+ in whole numbers, as the kernel's own modules compute them: twins of lasthop-cc in its profile `linux`.
//
// Nothing of the kernel is needed here, so that the same lines are compiled for it (twins.bpf.c) and for the test that
// drives them beside the laws in Rust (tests/twins.rs). Windows are segments, times nanoseconds, numbers of bytes those
// of TCP.
//
// References: Fu & Liew, JSAC 21(2) 2003 (Veno); Grieco & Mascolo, CCR 34(2) 2004 (Westwood+).

#ifndef LASTHOP_LAWS_H
#define LASTHOP_LAWS_H

#include <stdbool.h>

#include <linux/types.h>

#define INLINE static __attribute__((always_inline)) inline

struct window {
    __u32 cwnd, ssthresh;
};

// Slow start up to the threshold, at least by a segment; what it leaves of the segments acknowledged.
INLINE __u32 slow_start(struct window *window, __u32 acked)
{
    if (window->cwnd >= window->ssthresh)
        return acked;
    __u32 room = window->ssthresh - window->cwnd, grown = acked < room ? acked : room;
    window->cwnd += grown;
    return acked - grown;
}

INLINE __u32 at_least_two(__u64 segments)
{
    return segments < 2 ? 2 : segments > 0x7fffffff ? 0x7fffffff : segments;
}

// Congestion avoidance: a segment for every `per` that are acknowledged, counted in `credit`.
INLINE void avoid(struct window *window, __u32 *credit, __u32 per, __u32 acked)
{
    // What was saved up for a slower growth counts for one segment.
    if (*credit >= per) {
        *credit = 0;
        window->cwnd++;
    }
    *credit += acked;
    if (*credit >= per) {
        window->cwnd += *credit / per;
        *credit %= per;
    }
}

// Slow start, and of what it leaves congestion avoidance.
INLINE void grow_like_reno(struct window *window, __u32 *credit, __u32 acked)
{
    __u32 left = slow_start(window, acked);
    if (left && window->cwnd)
        avoid(window, credit, window->cwnd, left);
}

#define NO_RTT 0x7fffffffull
#define NS_PER_US 1000ull

// ---------------------------------------------------------------------------------------------------------------------
// Veno: few queued segments of one's own mean that a loss was not congestion

// In halves of a segment.
#define VENO_BETA 6
#define VENO_LEAST_SAMPLES 3

struct veno {
    // Least RTT in microseconds, of the connection and since the last look; 0: none yet.
    __u64 base_us, least_us;
    __u32 samples, credit, queued;
    bool is_away, skips;
};

INLINE void veno_learn(struct veno *law, __u64 rtt_ns)
{
    if (!rtt_ns)
        return;
    __u64 rtt_us = rtt_ns / NS_PER_US + 1;
    if (!law->base_us || rtt_us < law->base_us)
        law->base_us = rtt_us;
    if (!law->least_us || rtt_us < law->least_us)
        law->least_us = rtt_us;
    if (law->samples < VENO_LEAST_SAMPLES)
        law->samples++;
}

// A segment is missing, or is no longer.
INLINE void veno_state(struct veno *law, bool is_open)
{
    law->is_away = !is_open;
    if (is_open)
        law->least_us = 0;
}

// An ACK that may grow the window: a segment per round trip, on a full path every second one.
INLINE void veno_grow(struct veno *law, __u32 acked, struct window *window)
{
    if (law->is_away) {
        grow_like_reno(window, &law->credit, acked);
        return;
    }
    __u64 rtt_us = law->least_us ? law->least_us : NO_RTT, base_us = law->base_us ? law->base_us : NO_RTT;
    law->least_us = 0;
    if (law->samples < VENO_LEAST_SAMPLES) {
        grow_like_reno(window, &law->credit, acked);
        return;
    }
    law->queued = 2 * window->cwnd - 2 * window->cwnd * base_us / rtt_us;
    __u32 left = slow_start(window, acked);
    if (!left || !window->cwnd)
        return;
    if (law->queued < VENO_BETA) {
        avoid(window, &law->credit, window->cwnd, left);
    } else if (law->credit >= window->cwnd) {
        window->cwnd += !law->skips;
        law->skips = !law->skips;
        law->credit = 0;
    } else {
        law->credit += left;
    }
}

// What a loss, a mark or a timeout leaves: four fifths if few segments are queued, else half.
INLINE __u32 veno_kept(struct veno *law, __u32 cwnd)
{
    law->credit = 0;
    law->is_away = true;
    return at_least_two(law->queued < VENO_BETA ? (__u64)cwnd * 4 / 5 : cwnd / 2);
}

// ---------------------------------------------------------------------------------------------------------------------
// Westwood+: a loss leaves what the bandwidth of the last round trips fills without a queue

// Ticks of 4 ms (HZ = 250), of which a sample takes more than 12, and the RTT before the first: 20 s.
#define WESTWOOD_TICK_NS 4000000ull
#define WESTWOOD_ROUND 12
#define WESTWOOD_FIRST_RTT 5000

struct westwood {
    // The first filter and the estimate, in bytes per tick.
    __u64 first, second;
    // What has been delivered since `began`.
    __u64 bytes, began;
    // The last RTT, rounded up, and the least, in ticks; 0: none yet.
    __u32 rtt, least;
    __u32 una, ahead, credit;
    bool has_begun, forgets, is_pending;
};

// The segments for which an ACK stands. A cumulative one does not count again what duplicates have reported.
INLINE __u32 westwood_counted(struct westwood *law, __u32 ack, bool is_outstanding, __u32 mss)
{
    __u32 covered = (ack - law->una + mss - 1) / mss;
    law->una = ack;
    if (!covered) {
        law->ahead += is_outstanding;
        return is_outstanding;
    }
    if (covered == 1)
        return 1;
    if (law->ahead >= covered) {
        law->ahead -= covered;
        return 1;
    }
    covered -= law->ahead;
    law->ahead = 0;
    return covered;
}

// Every ACK, duplicates too: one sample of the bandwidth per round trip, through two filters of 7/8. What an ACK delivers
// that ends a sample belongs to the next one.
INLINE void westwood_arrived(struct westwood *law, __u64 now_ns, __u32 ack, bool is_outstanding, __u32 mss)
{
    if (!mss)
        return;
    __u32 counted = westwood_counted(law, ack, is_outstanding, mss);
    __u64 now = now_ns / WESTWOOD_TICK_NS;
    if (!law->has_begun) {
        // It starts the clock alone.
        law->has_begun = true;
        law->began = now;
        counted = 0;
    }
    __u32 rtt = law->rtt ? law->rtt : WESTWOOD_FIRST_RTT;
    __u64 span = now - law->began;
    if (span && span > (rtt > WESTWOOD_ROUND ? rtt : WESTWOOD_ROUND)) {
        __u64 rate = law->bytes / span;
        if (!law->first && !law->second) {
            law->first = rate;
            law->second = rate;
        } else {
            law->first = (7 * law->first + rate) >> 3;
            law->second = (7 * law->second + law->first) >> 3;
        }
        law->began = now;
        law->bytes = 0;
    }
    law->bytes += (__u64)counted * mss;
    if (law->forgets || !law->least || rtt < law->least)
        law->least = rtt;
    law->forgets = false;
}

INLINE void westwood_learn(struct westwood *law, __u64 rtt_ns)
{
    if (rtt_ns)
        law->rtt = (rtt_ns + WESTWOOD_TICK_NS - 1) / WESTWOOD_TICK_NS;
}

// The segments that fill the path without a queue.
INLINE __u32 westwood_pipe(const struct westwood *law, __u32 mss)
{
    __u32 least = law->least ? law->least : WESTWOOD_FIRST_RTT;
    return mss ? at_least_two(law->second * least / mss) : 2;
}

// An ACK that may grow the window; the first one after recovery sets it.
INLINE void westwood_grow(struct westwood *law, __u32 acked, __u32 mss, struct window *window)
{
    if (law->is_pending) {
        law->is_pending = false;
        window->cwnd = window->ssthresh = westwood_pipe(law, mss);
        law->credit = 0;
    }
    grow_like_reno(window, &law->credit, acked);
}

// What a loss leaves while it is repaired; afterwards the window is set.
INLINE __u32 westwood_kept(struct westwood *law, __u32 cwnd)
{
    law->is_pending = true;
    return at_least_two(cwnd / 2);
}

// What a timeout leaves as the threshold. The RTT before it becomes the least.
INLINE __u32 westwood_timed_out(struct westwood *law, __u32 mss)
{
    law->is_pending = false;
    law->forgets = true;
    return westwood_pipe(law, mss);
}

#endif
