/* lasthop: a network in simulated time for programs that speak a transport protocol of their own.
 *
 * The functions of the crate lasthop (docs/how-to/replace-your-toy-simulator.md). No thread, no socket, no clock:
 * the same scenario, seed and datagrams give the same run. A network belongs to one thread at a time; there is no state
 * beside it. Times are nanoseconds since the start of the run.
 *
 * Functions that can fail return a negative number then, and lasthop_error says why. */
#ifndef LASTHOP_H
#define LASTHOP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A time that never comes. */
#define LASTHOP_NEVER UINT64_MAX

typedef struct lasthop_network lasthop_network;

/* An address and a port, in the order of the host; an address of IPv4 takes the first four bytes. */
typedef struct {
    uint8_t ip[16];
    uint16_t port;
    uint8_t version; /* 4 or 6 */
    uint8_t zero;
} lasthop_address;

enum {
    LASTHOP_ARRIVALS = 0, /* datagrams have arrived: lasthop_recv has them */
    LASTHOP_TIMER = 1,    /* a timer has fired */
    LASTHOP_UNTIL = 2,    /* nothing has happened until the time that was given */
    LASTHOP_END = 3       /* the run is over */
};

/* What has happened. */
typedef struct {
    uint64_t token; /* of a timer: which one */
    uint32_t host;  /* of a timer: whose */
    uint32_t kind;
} lasthop_event;

/* A datagram that has arrived. */
typedef struct {
    uint64_t at;
    uint64_t datagram; /* its number: that which lasthop_send returned */
    uint64_t length;   /* of what it carries, also where there was room for less */
    lasthop_address from;
    lasthop_address to;
    uint32_t host;
    uint32_t copy; /* how often it had arrived before */
    uint32_t ecn;  /* the two bits of the header: 0, 1 (ECT(1)), 2 (ECT(0)) or 3 (CE) */
    uint32_t zero;
} lasthop_arrival;

enum { LASTHOP_UNDER_WAY = 0, LASTHOP_DELIVERED = 1, LASTHOP_LOST = 2, LASTHOP_UNKNOWN = 3 };

/* Opens a network: the text of a scenario, or the path of its file if the text has no line break. NULL if it is wrong;
 * `why` then says so, cut to `room` bytes with the zero. */
lasthop_network *lasthop_open(const char *scenario, uint64_t seed, char *why, size_t room);
/* Ends everything; NULL is allowed. */
void lasthop_close(lasthop_network *network);
/* Why the last call failed; empty if none has. Valid until the next call. */
const char *lasthop_error(const lasthop_network *network);
/* Puts a host with this address (its port is ignored) at a node; returns the number of the host. */
int64_t lasthop_attach(lasthop_network *network, const char *node, const lasthop_address *address);
uint64_t lasthop_now(const lasthop_network *network);
/* Sends a datagram at `launch` or now, whichever is later; returns its number. */
int64_t lasthop_send(lasthop_network *network, uint32_t host, uint16_t port, const lasthop_address *to, uint32_t ecn,
                     uint64_t launch, const uint8_t *data, size_t length);
/* Sets a timer of a host; LASTHOP_NEVER takes it away. */
int32_t lasthop_timer(lasthop_network *network, uint32_t host, uint64_t token, uint64_t at);
/* Moves time to the next instant at which something happens outside, or to `until`. */
int32_t lasthop_next(lasthop_network *network, uint64_t until, lasthop_event *event);
/* Takes the next datagram that has arrived at this instant: 1, or 0 if there is no more. */
int32_t lasthop_recv(lasthop_network *network, lasthop_arrival *arrival, uint8_t *data, size_t room);
/* Keeps what becomes of each datagram from now on. */
int32_t lasthop_keep_fates(lasthop_network *network);
/* What became of a datagram, and when. */
int32_t lasthop_fate(lasthop_network *network, uint64_t datagram, uint64_t *at);
/* The first `length` bytes of a random stream of a host in this run. */
int32_t lasthop_entropy(lasthop_network *network, uint32_t host, const char *name, uint8_t *bytes, size_t length);
/* Ends the run, the first time, and writes what it measured as JSON, cut to `room` bytes with the zero; returns how many
 * bytes it takes in all. */
int64_t lasthop_results(lasthop_network *network, char *json, size_t room);

#ifdef __cplusplus
}
#endif
#endif
