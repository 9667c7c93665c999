/* A question and its answer over a link of 10 Mbit/s and 20 ms:
 *   cc ping.c -I ../include -L ../../../target/release -llasthop_c -o ping */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lasthop.h"

/* The library has the same sizes. */
_Static_assert(sizeof(lasthop_address) == 20, "lasthop_address");
_Static_assert(sizeof(lasthop_event) == 16, "lasthop_event");
_Static_assert(sizeof(lasthop_arrival) == 80, "lasthop_arrival");

static const char *const SCENARIO =
    "duration = \"10 s\"\n"
    "[topology]\n"
    "kind = \"graph\"\n"
    "nodes = [\"server\", \"phone\"]\n"
    "links = [{ from = \"server\", to = \"phone\", rate = \"10 Mbit/s\", delay = \"20 ms\" }]\n";

int main(void) {
    char why[512];
    lasthop_network *network = lasthop_open(SCENARIO, 1, why, sizeof why);
    if (network == NULL) {
        fprintf(stderr, "%s\n", why);
        return 2;
    }
    lasthop_address server = {.ip = {10, 0, 0, 1}, .port = 443, .version = 4};
    lasthop_address phone = {.ip = {10, 0, 0, 2}, .port = 1000, .version = 4};
    int64_t server_host = lasthop_attach(network, "server", &server);
    int64_t phone_host = lasthop_attach(network, "phone", &phone);
    lasthop_keep_fates(network);
    int64_t ping = lasthop_send(network, (uint32_t)phone_host, phone.port, &server, 1, 0, (const uint8_t *)"ping", 4);

    lasthop_event event;
    while (lasthop_next(network, LASTHOP_NEVER, &event) == LASTHOP_ARRIVALS) {
        lasthop_arrival arrival;
        uint8_t data[1500];
        while (lasthop_recv(network, &arrival, data, sizeof data) == 1) {
            printf("%" PRIu64 " ns: host %" PRIu32 " has %.*s with ECN bits %" PRIu32 "\n", arrival.at, arrival.host,
                   (int)arrival.length, (const char *)data, arrival.ecn);
            if (arrival.host == (uint32_t)server_host)
                lasthop_send(network, arrival.host, server.port, &arrival.from, 0, 0, (const uint8_t *)"pong", 4);
        }
    }
    uint64_t at;
    int became = lasthop_fate(network, (uint64_t)ping, &at);
    printf("the ping was %s at %" PRIu64 " ns\n", became == LASTHOP_DELIVERED ? "delivered" : "not delivered", at);
    if (lasthop_send(network, 9, 1, &server, 0, 0, NULL, 0) < 0)
        printf("refused: %s\n", lasthop_error(network));
    printf("results: %s\n", lasthop_results(network, NULL, 0) > 100 ? "there" : "missing");
    lasthop_close(network);
    return 0;
}
