// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
//
// The kernel's half of `lasthop steer`: a congestion control of the kernel whose law is decided outside.
//
// What cannot wait is done here: recovery (PRR, RFC 6937), growth between two decisions, and Reno without decisions.
// A law that sets the window from the delivery rate decides in recovery too, as one with `cong_control` does in the
// kernel; until it has said what it does, as much is sent as was delivered.
// The other half (src/steer.rs) reads records of what ACKs said and writes decisions into the slot of a connection.
// A decision carries the epoch that it answers: a loss, a timeout, an undo or a restart begins another, and what was
// decided before it counts no more. `Lh0Id0Tk` stands for the name of a session; the loader puts it there.

#include <stdbool.h>

#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/version.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

// Helpers and functions of the kernel for congestion controls are for programs whose licence is compatible with its own.
char _license[] SEC("license") = "Dual MIT/GPL";

#define SLOTS 4096
#define TRIES 64
#define NO_SLOT 0xffffffff
#define ALIVE_NS 200000000ull
#define UNKNOWN_SSTHRESH 0x7fffffff
#define INITIAL_WINDOW 10
#define WHOLE 16

#define STATE_DISORDER 1
#define STATE_CWR 2
#define STATE_RECOVERY 3
#define STATE_LOSS 4
#define EVENT_TX_START 0
// From this version on `cong_control` gets an ACK and flags before the rate sample.
#define FOUR_ARGUMENTS KERNEL_VERSION(6, 10, 0)

// What is read and written of the kernel's structures; the loader finds their places in the running kernel.
#define OF_KERNEL __attribute__((preserve_access_index))

struct sock_common {
    __u32 skc_daddr, skc_rcv_saddr;
    __u16 skc_dport, skc_num;
} OF_KERNEL;

struct sock {
    struct sock_common __sk_common;
    unsigned long sk_pacing_rate;
    __u32 sk_pacing_status;
} OF_KERNEL;

struct inet_connection_sock {
    __u8 icsk_ca_state : 5;
    __u32 icsk_rto;
} OF_KERNEL;

struct tcp_sock {
    __u32 snd_cwnd, snd_ssthresh, snd_una, snd_nxt, srtt_us, mss_cache, lsndtime;
    __u32 packets_out, sacked_out, lost_out, retrans_out, max_packets_out;
    __u32 prior_cwnd, prr_out, delivered;
    __u8 is_cwnd_limited : 1;
} OF_KERNEL;

struct rate_sample {
    __s32 delivered;
    long interval_us;
    long rtt_us;
    int losses;
    __u32 acked_sacked, prior_in_flight, prior_delivered;
    bool is_app_limited;
} OF_KERNEL;

struct tcp_congestion_ops {
    __u32 (*ssthresh)(struct sock *sk);
    void (*set_state)(struct sock *sk, __u8 state);
    void (*cwnd_event)(struct sock *sk, int event);
    __u32 (*undo_cwnd)(struct sock *sk);
    void (*cong_control)(struct sock *sk);
    void (*init)(struct sock *sk);
    void (*release)(struct sock *sk);
    __u32 flags;
    char name[16];
};

extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
// The loader fills it in. It is constant to the verifier, which does not look at what is for another version.
extern int LINUX_KERNEL_VERSION __kconfig;

// ---------------------------------------------------------------------------------------------------------------------
// What both halves know; the same in src/abi.rs

enum kind { OPENED = 1, ACKED, LOST, TIMED_OUT, MARKED, RECOVERED, UNDONE, RESTARTED, CLOSED };

struct record {
    __u64 id, at_ns;
    __u32 slot, kind, epoch, acked;
    __u32 acks, grown, is_limited, rtt_us;
    __u32 srtt_us, cwnd, ssthresh, in_flight;
    __u32 mss, una, next, delivered;
    __u32 rate_delivered, rate_interval_us, rate_prior_in_flight, rate_losses;
    __u32 is_app_limited, rate_prior_delivered, source, sink;
    __u32 ports, idle_us;
};

struct slot {
    // Of the kernel.
    __u64 owner;
    __u32 kernel_epoch, cwnd_now, applied, on_its_own;
    __u64 opened_ns;
    // Of who decides. An odd number: being written.
    __u32 sequence, epoch;
    __u64 cwnd, slope;
    __u32 grown_at, ssthresh, share, answers_ns_low;
    __u64 pacing;
    __u64 reserved[4];
};

struct control {
    // Of who decides.
    __u64 heartbeat_ns, coalesce_ns;
    __u32 process, decides_alone;
    char law[24];
    // Of the kernel.
    __u64 connections, applied, on_its_own, stale, records, missed;
    __u64 spare[4];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct control);
} ctl_Lh0Id0Tk SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, SLOTS);
    __type(key, __u32);
    __type(value, struct slot);
} slots_Lh0Id0Tk SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 22);
} ring_Lh0Id0Tk SEC(".maps");

// What is remembered of a connection: what was seen since the last record, and recovery.
struct memory {
    __u64 id, last_record_ns;
    __u32 slot, epoch, acked, acks, grown, limited, rtt_us, prr_delivered, is_undone, losses;
    // Up to where data was acknowledged.
    __u32 una;
    // A loss has been found, and is told with what the ACK that shows it says.
    __u32 is_lost;
};

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct memory);
} mem_Lh0Id0Tk SEC(".maps");

// ---------------------------------------------------------------------------------------------------------------------

#define READ(x) (*(volatile typeof(x) *)&(x))
#define INLINE static __attribute__((always_inline)) inline

INLINE struct control *control(void)
{
    __u32 first = 0;
    return bpf_map_lookup_elem(&ctl_Lh0Id0Tk, &first);
}

INLINE struct slot *slot_of(const struct memory *mine)
{
    __u32 place = mine->slot;
    return place == NO_SLOT ? 0 : bpf_map_lookup_elem(&slots_Lh0Id0Tk, &place);
}

INLINE __u32 state_of(struct sock *sk)
{
    struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;
    return BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state);
}

INLINE __u32 in_flight(const struct tcp_sock *tp)
{
    return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

// Whether the window is what holds the sender back: it was full, or in slow start half full.
INLINE bool is_limited(struct tcp_sock *tp)
{
    if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
        return true;
    return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

// Tells what was seen. Who decides is woken for what cannot wait, and for what has waited long enough.
INLINE void tell(struct sock *sk, struct memory *mine, const struct rate_sample *rs, __u32 kind, __u32 idle_us)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct control *all = control();
    if (!all)
        return;
    struct record *record = bpf_ringbuf_reserve(&ring_Lh0Id0Tk, sizeof(struct record), 0);
    if (!record) {
        __sync_fetch_and_add(&all->missed, 1);
        return;
    }
    __u64 now = bpf_ktime_get_ns();
    record->id = mine->id;
    record->at_ns = now;
    record->slot = mine->slot;
    record->kind = kind;
    record->epoch = mine->epoch;
    record->acked = mine->acked;
    record->acks = mine->acks;
    record->grown = mine->grown;
    record->is_limited = mine->limited;
    record->rtt_us = mine->rtt_us;
    record->srtt_us = tp->srtt_us >> 3;
    record->cwnd = tp->snd_cwnd;
    record->ssthresh = tp->snd_ssthresh;
    record->in_flight = in_flight(tp);
    record->mss = tp->mss_cache;
    record->una = tp->snd_una;
    record->next = tp->snd_nxt;
    record->delivered = tp->delivered;
    record->rate_delivered = rs ? rs->delivered : 0;
    record->rate_interval_us = rs ? rs->interval_us : 0;
    record->rate_prior_in_flight = rs ? rs->prior_in_flight : 0;
    record->rate_losses = mine->losses;
    record->is_app_limited = rs ? rs->is_app_limited : 0;
    record->rate_prior_delivered = rs ? rs->prior_delivered : 0;
    record->source = sk->__sk_common.skc_rcv_saddr;
    record->sink = sk->__sk_common.skc_daddr;
    record->ports = (__u32)sk->__sk_common.skc_num << 16 | __builtin_bswap16(sk->__sk_common.skc_dport);
    record->idle_us = idle_us;
    mine->acked = 0;
    mine->acks = 0;
    mine->limited = 0;
    mine->losses = 0;
    mine->rtt_us = 0;
    // After anything but an ACK, the next one is told at once: there is no decision yet.
    mine->last_record_ns = kind == ACKED ? now : 0;
    __sync_fetch_and_add(&all->records, 1);
    bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
}

// Proportional rate reduction with its conservative bound (RFC 6937 section 3.1), in segments.
INLINE void reduce_in_proportion(struct tcp_sock *tp, struct memory *mine, __u32 delivered)
{
    __u32 pipe = in_flight(tp), sent = tp->prr_out, before = tp->prior_cwnd, goal = tp->snd_ssthresh;
    if (!delivered || !before)
        return;
    mine->prr_delivered += delivered;
    __u32 count = mine->prr_delivered, allowed;
    if (pipe > goal) {
        __u32 share = ((__u64)count * goal + before - 1) / before;
        allowed = share > sent ? share - sent : 0;
    } else {
        allowed = count > sent ? count - sent : 0;
        if (allowed < delivered)
            allowed = delivered;
        if (allowed > goal - pipe)
            allowed = goal - pipe;
    }
    // The retransmission with which recovery begins is always sent.
    if (!allowed && !sent)
        allowed = 1;
    tp->snd_cwnd = pipe + allowed;
}

INLINE bool is_alive(const struct control *all)
{
    return bpf_ktime_get_ns() - READ(all->heartbeat_ns) <= ALIVE_NS;
}

// The law decides in recovery too: it has said something of this connection, and lives.
INLINE bool decides_alone(struct slot *slot, const struct control *all)
{
    return READ(all->decides_alone) && slot && READ(slot->sequence) && is_alive(all);
}

// A decision that is whole, of this epoch, and of somebody who lives.
INLINE bool is_decided(struct slot *slot, const struct memory *mine, const struct control *all)
{
    if (!slot || !is_alive(all))
        return false;
    __u32 sequence = READ(slot->sequence);
    return sequence && !(sequence & 1) && READ(slot->epoch) == mine->epoch;
}

// The window decided, in 65536ths of a segment, with what it has grown by since; 0 while it is being written.
INLINE __u64 window_of(struct slot *slot, const struct memory *mine)
{
    __u32 sequence = READ(slot->sequence);
    __u64 base = READ(slot->cwnd), slope = READ(slot->slope), bound = (__u64)READ(slot->ssthresh) << WHOLE;
    __u32 grown = mine->grown - READ(slot->grown_at);
    if ((sequence & 1) || sequence != READ(slot->sequence))
        return 0;
    __u64 window = base + slope * grown;
    // Slow start ends at the threshold.
    return base < bound && window > bound ? bound : window;
}

// Does what was decided.
INLINE bool apply(struct sock *sk, struct memory *mine, struct control *all)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct slot *slot = slot_of(mine);
    if (!slot || !is_decided(slot, mine, all)) {
        if (slot && READ(slot->sequence))
            __sync_fetch_and_add(&all->stale, 1);
        return false;
    }
    __u32 sequence = READ(slot->sequence);
    __u64 pacing = READ(slot->pacing), window = window_of(slot, mine);
    __u32 ssthresh = READ(slot->ssthresh);
    if (!window || sequence != READ(slot->sequence))
        return false;
    __u32 cwnd = window >> WHOLE;
    tp->snd_cwnd = cwnd ? cwnd : 1;
    tp->snd_ssthresh = ssthresh;
    if (pacing) {
        if (!sk->sk_pacing_status)
            sk->sk_pacing_status = 1;
        sk->sk_pacing_rate = pacing;
    }
    slot->applied++;
    __sync_fetch_and_add(&all->applied, 1);
    return pacing != 0;
}

// The pace at which the kernel lets a window-limited sender send: twice the window per RTT in slow start, else 1.2 times.
INLINE void pace_by_window(struct sock *sk)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    __u64 srtt = tp->srtt_us;
    __u32 window = tp->snd_cwnd > tp->packets_out ? tp->snd_cwnd : tp->packets_out;
    if (!srtt)
        return;
    __u64 percent = tp->snd_cwnd < tp->snd_ssthresh / 2 ? 200 : 120;
    sk->sk_pacing_rate = (__u64)tp->mss_cache * window * 80000 * percent / srtt;
}

SEC("struct_ops/lh_init")
void BPF_PROG(lh_init, struct sock *sk)
{
    struct control *all = control();
    struct memory *mine = bpf_sk_storage_get(&mem_Lh0Id0Tk, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
    if (!all || !mine)
        return;
    __builtin_memset(mine, 0, sizeof(*mine));
    mine->id = __sync_fetch_and_add(&all->connections, 1) + 1;
    mine->slot = NO_SLOT;
    mine->epoch = 1;
    mine->una = ((struct tcp_sock *)sk)->snd_una;
    // Kernels up to 6.1 take a loop whose last instruction is the jump back, and no other.
    __u32 left = TRIES, place = mine->id % SLOTS;
    do {
        struct slot *slot = bpf_map_lookup_elem(&slots_Lh0Id0Tk, &place);
        if (slot && __sync_val_compare_and_swap(&slot->owner, 0, mine->id) == 0) {
            mine->slot = place;
            slot->sequence = 0;
            slot->epoch = 0;
            slot->applied = 0;
            slot->on_its_own = 0;
            slot->kernel_epoch = 1;
            slot->opened_ns = bpf_ktime_get_ns();
            break;
        }
        place = (place + 1) % SLOTS;
    } while (--left);
    tell(sk, mine, 0, OPENED, 0);
}

SEC("struct_ops/lh_release")
void BPF_PROG(lh_release, struct sock *sk)
{
    struct memory *mine = bpf_sk_storage_get(&mem_Lh0Id0Tk, sk, 0, 0);
    if (!mine)
        return;
    tell(sk, mine, 0, CLOSED, 0);
    struct slot *slot = slot_of(mine);
    if (slot) {
        slot->sequence = 0;
        slot->owner = 0;
    }
}

INLINE void begin_epoch(struct memory *mine)
{
    mine->epoch++;
    struct slot *slot = slot_of(mine);
    if (slot)
        slot->kernel_epoch = mine->epoch;
}

SEC("struct_ops/lh_ssthresh")
__u32 BPF_PROG(lh_ssthresh, struct sock *sk)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct memory *mine = bpf_sk_storage_get(&mem_Lh0Id0Tk, sk, 0, 0);
    struct control *all = control();
    __u64 share = 1 << (WHOLE - 1), window = (__u64)tp->snd_cwnd << WHOLE;
    if (mine && all) {
        struct slot *slot = slot_of(mine);
        bool is_alone = decides_alone(slot, all);
        // After a timeout the window is built up here, and the law knows nothing of it.
        if (slot && state_of(sk) < STATE_CWR && is_decided(slot, mine, all)) {
            // Of the window with its fraction: what is left of 12.8 segments is more than of 12.
            __u64 decided = window_of(slot, mine);
            share = READ(slot->share);
            window = decided ? decided : window;
        }
        mine->prr_delivered = 0;
        mine->is_undone = 0;
        begin_epoch(mine);
        if (is_alone)
            return tp->snd_ssthresh;
    }
    __u32 goal = (window * share) >> (2 * WHOLE);
    return goal > 2 ? goal : 2;
}

SEC("struct_ops/lh_set_state")
void BPF_PROG(lh_set_state, struct sock *sk, __u8 state)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct memory *mine = bpf_sk_storage_get(&mem_Lh0Id0Tk, sk, 0, 0);
    __u32 before = state_of(sk);
    if (!mine || state == before)
        return;
    struct control *all = control();
    bool is_alone = all && decides_alone(slot_of(mine), all);
    if (mine->is_lost) {
        mine->is_lost = 0;
        tell(sk, mine, 0, LOST, 0);
    }
    if (state == STATE_RECOVERY && before < STATE_LOSS && is_alone) {
        tell(sk, mine, 0, LOST, 0);
    } else if (state == STATE_RECOVERY && before < STATE_CWR) {
        // After a mark the window has fallen already.
        mine->is_lost = 1;
    } else if (state == STATE_LOSS) {
        tell(sk, mine, 0, TIMED_OUT, 0);
    } else if (state == STATE_CWR) {
        tell(sk, mine, 0, MARKED, 0);
    } else if (before >= STATE_CWR && state <= STATE_DISORDER) {
        if (!is_alone && before != STATE_LOSS && !mine->is_undone && tp->snd_ssthresh < UNKNOWN_SSTHRESH)
            tp->snd_cwnd = tp->snd_ssthresh;
        begin_epoch(mine);
        tell(sk, mine, 0, RECOVERED, 0);
    }
}

SEC("struct_ops/lh_undo_cwnd")
__u32 BPF_PROG(lh_undo_cwnd, struct sock *sk)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct memory *mine = bpf_sk_storage_get(&mem_Lh0Id0Tk, sk, 0, 0);
    if (mine) {
        if (mine->is_lost) {
            mine->is_lost = 0;
            tell(sk, mine, 0, LOST, 0);
        }
        mine->is_undone = 1;
        begin_epoch(mine);
        tell(sk, mine, 0, UNDONE, 0);
    }
    return tp->snd_cwnd > tp->prior_cwnd ? tp->snd_cwnd : tp->prior_cwnd;
}

// A pause longer than the timeout: the ACK clock is gone (RFC 5681 section 4.1).
SEC("struct_ops/lh_cwnd_event")
void BPF_PROG(lh_cwnd_event, struct sock *sk, int event)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;
    if (event != EVENT_TX_START)
        return;
    __u32 idle = (__u32)bpf_jiffies64() - tp->lsndtime;
    struct memory *mine = bpf_sk_storage_get(&mem_Lh0Id0Tk, sk, 0, 0);
    if (!mine || !tp->lsndtime || idle > 1u << 31 || idle <= icsk->icsk_rto)
        return;
    struct slot *slot = slot_of(mine);
    if (slot && READ(slot->pacing))
        return;
    if (tp->snd_cwnd > INITIAL_WINDOW)
        tp->snd_cwnd = INITIAL_WINDOW;
    begin_epoch(mine);
    tell(sk, mine, 0, RESTARTED, 0);
}

SEC("struct_ops/lh_cong_control")
int lh_cong_control(__u64 *arguments)
{
    struct sock *sk = (void *)arguments[0];
    const struct rate_sample *rs;
    // In assembly, since the compiler makes one read of both, from a place that it computes: which is refused.
    if (LINUX_KERNEL_VERSION < FOUR_ARGUMENTS)
        asm volatile("%0 = *(u64 *)(%1 + 8)" : "=r"(rs) : "r"(arguments));
    else
        asm volatile("%0 = *(u64 *)(%1 + 24)" : "=r"(rs) : "r"(arguments));
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct memory *mine = bpf_sk_storage_get(&mem_Lh0Id0Tk, sk, 0, 0);
    struct control *all = control();
    if (!mine || !all)
        return 0;
    bool advances = tp->snd_una != mine->una;
    mine->una = tp->snd_una;
    __u32 delivered = rs->acked_sacked, state = state_of(sk);
    bool is_recovering = state == STATE_CWR || state == STATE_RECOVERY;
    bool grows = !is_recovering && advances && is_limited(tp);
    mine->acked += delivered;
    mine->acks += delivered != 0;
    mine->losses += rs->losses > 0 ? rs->losses : 0;
    if (rs->rtt_us > 0)
        mine->rtt_us = rs->rtt_us;
    if (grows) {
        mine->grown += delivered;
        mine->limited += delivered;
    }
    struct slot *slot = slot_of(mine);
    bool is_alone = decides_alone(slot, all), is_paced = is_alone;
    if (is_alone && !is_decided(slot, mine, all)) {
        if (is_recovering)
            tp->snd_cwnd = in_flight(tp) + (delivered ? delivered : 1);
        slot->on_its_own++;
        __sync_fetch_and_add(&all->on_its_own, 1);
    } else if (is_recovering && !is_alone) {
        // What the law has answered to this very loss, instead of what it would have answered before it.
        if (slot && is_decided(slot, mine, all)) {
            __u32 goal = READ(slot->ssthresh);
            tp->snd_ssthresh = goal > 2 ? goal : 2;
        }
        reduce_in_proportion(tp, mine, delivered);
    } else {
        // After a timeout the window is built up again here: one window of data, by slow start.
        if ((is_alone || state != STATE_LOSS) && slot && is_decided(slot, mine, all)) {
            is_paced = apply(sk, mine, all) || is_alone;
        } else {
            if (grows)
                tcp_reno_cong_avoid(sk, tp->snd_una, delivered);
            if (slot)
                slot->on_its_own++;
            __sync_fetch_and_add(&all->on_its_own, 1);
        }
        if (slot)
            slot->cwnd_now = tp->snd_cwnd;
    }
    if (!is_paced)
        pace_by_window(sk);
    // An eighth of an RTT, but no longer than what was asked for.
    __u64 wait = READ(all->coalesce_ns), eighth = (__u64)(tp->srtt_us >> 3) * 125;
    if (eighth < wait)
        wait = eighth;
    // Who decides alone in recovery has to see every ACK of it.
    if (is_alone && (is_recovering || state == STATE_LOSS))
        wait = 0;
    if (mine->is_lost) {
        mine->is_lost = 0;
        tell(sk, mine, rs, LOST, 0);
    } else if (mine->acks && bpf_ktime_get_ns() - mine->last_record_ns >= wait)
        tell(sk, mine, rs, ACKED, 0);
    return 0;
}

SEC(".struct_ops")
struct tcp_congestion_ops lh_Lh0Id0Tk = {
    .init = (void *)lh_init,
    .release = (void *)lh_release,
    .ssthresh = (void *)lh_ssthresh,
    .set_state = (void *)lh_set_state,
    .cwnd_event = (void *)lh_cwnd_event,
    .undo_cwnd = (void *)lh_undo_cwnd,
    .cong_control = (void *)lh_cong_control,
    // Any program may choose it for a socket of its own.
    .flags = 1,
    .name = "lh_Lh0Id0Tk",
};

// ---------------------------------------------------------------------------------------------------------------------
// Where src/abi.rs expects each field; it asserts the same

#define SIZE(structure, size) _Static_assert(sizeof(struct structure) == size, #structure)
#define PLACE(structure, field, place) \
    _Static_assert(__builtin_offsetof(struct structure, field) == place, #structure "." #field)

SIZE(record, 120);
PLACE(record, id, 0);
PLACE(record, at_ns, 8);
PLACE(record, slot, 16);
PLACE(record, kind, 20);
PLACE(record, epoch, 24);
PLACE(record, acked, 28);
PLACE(record, acks, 32);
PLACE(record, grown, 36);
PLACE(record, is_limited, 40);
PLACE(record, rtt_us, 44);
PLACE(record, srtt_us, 48);
PLACE(record, cwnd, 52);
PLACE(record, ssthresh, 56);
PLACE(record, in_flight, 60);
PLACE(record, mss, 64);
PLACE(record, una, 68);
PLACE(record, next, 72);
PLACE(record, delivered, 76);
PLACE(record, rate_delivered, 80);
PLACE(record, rate_interval_us, 84);
PLACE(record, rate_prior_in_flight, 88);
PLACE(record, rate_losses, 92);
PLACE(record, is_app_limited, 96);
PLACE(record, rate_prior_delivered, 100);
PLACE(record, source, 104);
PLACE(record, sink, 108);
PLACE(record, ports, 112);
PLACE(record, idle_us, 116);
SIZE(slot, 112);
PLACE(slot, owner, 0);
PLACE(slot, kernel_epoch, 8);
PLACE(slot, cwnd_now, 12);
PLACE(slot, applied, 16);
PLACE(slot, on_its_own, 20);
PLACE(slot, opened_ns, 24);
PLACE(slot, sequence, 32);
PLACE(slot, epoch, 36);
PLACE(slot, cwnd, 40);
PLACE(slot, slope, 48);
PLACE(slot, grown_at, 56);
PLACE(slot, ssthresh, 60);
PLACE(slot, share, 64);
PLACE(slot, answers_ns_low, 68);
PLACE(slot, pacing, 72);
PLACE(slot, reserved, 80);
SIZE(control, 128);
PLACE(control, heartbeat_ns, 0);
PLACE(control, coalesce_ns, 8);
PLACE(control, process, 16);
PLACE(control, decides_alone, 20);
PLACE(control, law, 24);
PLACE(control, connections, 48);
PLACE(control, applied, 56);
PLACE(control, on_its_own, 64);
PLACE(control, stale, 72);
PLACE(control, records, 80);
PLACE(control, missed, 88);
PLACE(control, spare, 96);
