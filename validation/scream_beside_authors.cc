// SCReAMv2 of its authors over a path like a scenario's: their sender, their receiver, and between them a link with a
// drop-tail queue, all in a clock of its own. `validation.scream_beside_authors` compiles it with their sources.
//
// Prints, for each second, the rate that arrived, the mean and the longest queueing delay, and what was dropped.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "RtpQueue.h"
#include "ScreamRx.h"
#include "ScreamTx.h"

static const uint32_t STREAM = 10;
static const int HEADERS = 28;
static const int TICKS = 65536;

struct Packet {
    int size;
    uint16_t number;
    uint32_t stamp;
    bool last;
    double at;
};

struct Report {
    std::vector<unsigned char> bytes;
    double at;
};

void packet_free(void *, uint32_t) {}

// Arguments: one-way delay in s, queue in bytes, frames per second, end in s, then pairs of a time in s and a rate in
// bit/s from then on.
int main(int count, char **words) {
    const double delay = atof(words[1]), end = atof(words[4]);
    const int room = atoi(words[2]), frames = atoi(words[3]);
    std::vector<std::pair<double, double>> steps;
    for (int word = 5; word + 1 < count; word += 2) steps.push_back({atof(words[word]), atof(words[word + 1])});
    ScreamV2Tx sender(0.7f, 0.8f, 0.06f, 10000, 1.5f, 1.5f, 2.0f, 0.05f, false, 3.0f, false, false);
    sender.enablePacketPacing(true);
    ScreamRx receiver(0, -1);
    RtpQueue queue;
    sender.registerNewStream(&queue, STREAM, 1.0f, 150e3f, 150e3f, 1.5e6f);
    std::deque<Packet> link, way;
    std::deque<Report> back;
    int waiting = 0, dropped = 0, arrived = 0, packets = 0;
    double sent = 0, waited = 0, longest = 0;
    bool busy = false;
    long next = -1;
    uint16_t number = 0;
    int frame = 0;
    for (long tick = 0; tick < (long)(end * TICKS); tick++) {
        const double now = (double)tick / TICKS;
        const uint32_t clock = (uint32_t)tick;
        uint32_t source = STREAM;
        float wait = -1;
        char shown[32];
        snprintf(shown, sizeof shown, "%.4f", now);
        sender.setTimeString(shown);
        double rate = steps[0].second;
        for (const auto &step : steps)
            if (step.first <= now) rate = step.second;
        if (now >= (double)frame / frames) {
            frame++;
            int left = (int)(sender.getTargetBitrate(clock, STREAM) / 8 / frames), whole = 0;
            while (left > 0) {
                char content[2000] = {0};
                const int size = std::min(left, 1200);
                left -= size;
                queue.push(content, size + 12, STREAM, number++, left <= 0, (float)now, (uint32_t)(now * 90000));
                whole += size + 12;
            }
            queue.setSizeOfLastFrame(whole);
            sender.newMediaFrame(clock, STREAM, whole, true);
            wait = sender.isOkToTransmit(clock, source);
            if (wait > 0) next = tick + std::max(1L, (long)(TICKS * wait));
        }
        while (!link.empty()) {
            if (!busy) {
                busy = true;
                const double delayed = now - link.front().at;
                waited += delayed;
                longest = std::max(longest, delayed);
                packets++;
                sent = now + 8.0 * (link.front().size + HEADERS) / rate;
            }
            if (sent > now) break;
            Packet gone = link.front();
            link.pop_front();
            waiting -= gone.size + HEADERS;
            busy = false;
            gone.at = sent + delay;
            way.push_back(gone);
        }
        while (!way.empty() && way.front().at <= now) {
            const Packet &come = way.front();
            arrived += come.size + HEADERS;
            receiver.receive(clock, 0, STREAM, come.size, come.number, 0, come.last, come.stamp);
            way.pop_front();
        }
        unsigned char bytes[2000];
        int size = -1;
        const bool due = clock - receiver.getLastFeedbackT() > receiver.getRtcpFbInterval();
        if (receiver.isFeedback(clock) && (due || receiver.checkIfFlushAck()) &&
            receiver.createStandardizedFeedback(clock, false, bytes, size))
            back.push_back({std::vector<unsigned char>(bytes, bytes + size), now + delay});
        while (!back.empty() && back.front().at <= now) {
            sender.incomingStandardizedFeedback(clock, back.front().bytes.data(), (int)back.front().bytes.size());
            back.pop_front();
            wait = sender.isOkToTransmit(clock, source);
            if (wait > 0) next = tick + std::max(1L, (long)(TICKS * wait));
        }
        if (tick == next && wait != 0) {
            wait = sender.isOkToTransmit(clock, source);
            if (wait > 0) next = tick + std::max(1L, (long)(TICKS * wait));
        }
        if (wait == 0) {
            Packet fresh;
            void *content = nullptr;
            uint32_t of;
            const float kept = queue.getDelay((float)now);
            queue.sendPacket(&content, fresh.size, of, fresh.number, fresh.last, fresh.stamp);
            fresh.at = now;
            if (waiting + fresh.size + HEADERS <= room) {
                waiting += fresh.size + HEADERS;
                link.push_back(fresh);
            } else {
                dropped++;
            }
            const float pause =
                sender.addTransmitted(clock, STREAM, fresh.size, fresh.number, fresh.last, kept, fresh.stamp);
            next = tick + std::max(1L, (long)(TICKS * pause));
        }
        if (tick % TICKS == TICKS - 1) {
            printf("%d %.5f %.5f %d\n", arrived * 8, packets ? waited / packets : 0, longest, dropped);
            arrived = packets = dropped = 0;
            waited = longest = 0;
        }
    }
    return 0;
}
