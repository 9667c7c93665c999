// Drives the queue of the authors of CellReplay by a clock of its own, which counts in whatever unit their files have.
// `two_loads.py` compiles it with their sources, and reads the log that they write. Arguments: light load, heavy load,
// folder of the log, offsets by size or an empty word, timer, end. Arrivals, a time and bytes each, come on stdin.
#include <fcntl.h>

#include <algorithm>
#include <iostream>
#include <utility>
#include <vector>

#include "cellular_queue.hh"
#include "file_descriptor.hh"
#include "infinite_packet_queue.hh"

static uint64_t now = 0;

uint64_t timestamp() { return now; }

// Their program must not run as root, because it makes namespaces; this does not.
void assert_not_root() {}

int main(int count, char** words) {
  if (count != 7) return 2;
  std::unique_ptr<AbstractPacketQueue> heavy(new InfinitePacketQueue(""));
  CellularQueue queue("", words[1], words[2], words[3], true, std::move(heavy), true, 0, 0.0, words[4],
                      std::stoi(words[5]), "");
  const uint64_t end = std::stoull(words[6]);
  FileDescriptor sink(open("/dev/null", O_WRONLY));
  std::vector<std::pair<uint64_t, size_t>> arrivals;
  for (std::pair<uint64_t, size_t> one; std::cin >> one.first >> one.second;) arrivals.push_back(one);
  for (auto next = arrivals.begin(); now <= end;) {
    for (; next != arrivals.end() && next->first == now; ++next) queue.read_packet(std::string(next->second, '\0'));
    // To ask for the wait lets opportunities pass, and then there may be more to write, as in their loop of events.
    uint64_t wait;
    do {
      queue.write_packets(sink);
      wait = queue.wait_time();
    } while (queue.pending_output());
    uint64_t then = now + std::max<uint64_t>(wait, 1);
    now = next == arrivals.end() ? then : std::min(then, next->first);
  }
}
