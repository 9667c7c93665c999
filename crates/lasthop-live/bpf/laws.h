// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
//
// Veno and Westwood+ in whole numbers, as a kernel can compute them: twins of lasthop-cc in its profile `linux`.
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

// ---------------------------------------------------------------------------------------------------------------------
// Veno: few queued segments of one's own mean that a loss was not congestion

#define VENO_BETA 3
#define VENO_LEAST_SAMPLES 3

struct veno {
    __u64 base_ns;
    __u32 samples, credit;
    bool is_full, skipped;
};

// Queued are W (RTT - base) / RTT segments.
INLINE void veno_learn(struct veno *law, __u64 rtt_ns, __u32 cwnd)
{
    if (!rtt_ns)
        return;
    if (!law->base_ns || rtt_ns < law->base_ns)
        law->base_ns = rtt_ns;
    law->is_full = cwnd * (rtt_ns - law->base_ns) >= VENO_BETA * rtt_ns;
    if (law->samples < VENO_LEAST_SAMPLES)
        law->samples++;
}

INLINE bool veno_can_judge(const struct veno *law)
{
    return law->samples >= VENO_LEAST_SAMPLES;
}

// An ACK that may grow the window: a segment per round trip, on a full path every second one.
INLINE void veno_grow(struct veno *law, __u32 acked, struct window *window)
{
    __u32 left = slow_start(window, acked);
    if (!left)
        return;
    law->credit += left;
    if (law->credit < window->cwnd)
        return;
    law->credit = 0;
    law->skipped = veno_can_judge(law) && law->is_full && !law->skipped;
    if (!law->skipped)
        window->cwnd++;
}

// What a loss leaves: four fifths if few segments are queued, else half.
INLINE __u32 veno_kept(const struct veno *law, __u32 cwnd)
{
    return at_least_two(veno_can_judge(law) && !law->is_full ? (__u64)cwnd * 4 / 5 : cwnd / 2);
}

// ---------------------------------------------------------------------------------------------------------------------
// Westwood+: a loss leaves what the bandwidth of the last round trips fills without a queue

#define WESTWOOD_ROUND_NS 50000000ull
#define NS_PER_MS 1000000ull

struct westwood {
    __u64 began_ns, least_rtt_ns;
    // Bytes per millisecond, after the first filter and after both.
    __u64 first, second;
    __u32 una, ahead, delivered, credit;
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

// Every ACK, duplicates too: one sample of the bandwidth per round trip, through two filters of 7/8.
INLINE void westwood_arrived(struct westwood *law, __u64 now_ns, __u32 ack, bool is_outstanding, __u32 mss,
                             __u64 srtt_ns)
{
    if (!mss)
        return;
    __u32 counted = westwood_counted(law, ack, is_outstanding, mss);
    if (!law->has_begun) {
        law->has_begun = true;
        law->began_ns = now_ns;
        return;
    }
    law->delivered += counted;
    __u64 span = now_ns - law->began_ns, least = srtt_ns > WESTWOOD_ROUND_NS ? srtt_ns : WESTWOOD_ROUND_NS;
    if (!srtt_ns || span < least)
        return;
    __u64 rate = (__u64)law->delivered * mss / (span / NS_PER_MS);
    if (!law->first && !law->second) {
        law->first = rate;
        law->second = rate;
    } else {
        law->first = (7 * law->first + rate) >> 3;
        law->second = (7 * law->second + law->first) >> 3;
    }
    law->began_ns = now_ns;
    law->delivered = 0;
}

// After a timeout the next RTT is the least.
INLINE void westwood_learn(struct westwood *law, __u64 rtt_ns)
{
    if (!rtt_ns)
        return;
    if (law->forgets || !law->least_rtt_ns || rtt_ns < law->least_rtt_ns)
        law->least_rtt_ns = rtt_ns;
    law->forgets = false;
}

// The segments that fill the path without a queue.
INLINE __u32 westwood_pipe(const struct westwood *law, __u32 mss)
{
    return mss ? at_least_two(law->second * law->least_rtt_ns / NS_PER_MS / mss) : 2;
}

// An ACK that may grow the window; the first one after recovery sets it.
INLINE void westwood_grow(struct westwood *law, __u32 acked, __u32 mss, struct window *window)
{
    if (law->is_pending) {
        law->is_pending = false;
        window->cwnd = window->ssthresh = westwood_pipe(law, mss);
        law->credit = 0;
    }
    __u32 left = slow_start(window, acked);
    law->credit += left;
    if (left && law->credit >= window->cwnd) {
        law->credit -= window->cwnd;
        window->cwnd++;
    }
}

// What a loss leaves while it is repaired; afterwards the window is set.
INLINE __u32 westwood_kept(struct westwood *law, __u32 cwnd)
{
    law->is_pending = true;
    return at_least_two(cwnd / 2);
}

// What a timeout leaves as the threshold.
INLINE __u32 westwood_timed_out(struct westwood *law, __u32 mss)
{
    law->is_pending = false;
    law->forgets = true;
    return westwood_pipe(law, mss);
}

#endif
