// One managed queue in ns-3: `queue codel|fq-codel|red udp|sack RATE BYTES WARMUP SECONDS SEED START...`.
//
// A source for each START (s), 100 Mbit/s and 1 ms and 0.37 ms more for each further one, a router, RATE (bit/s) and
// 20 ms with the queue, a sink. Every IP packet has BYTES; of UDP the flows offer 1.2 times RATE together, shares
// 1:2:...:N. `validation/queues.py` builds it against the installed ns-3 and reads what it prints, from WARMUP to
// SECONDS: mean number of waiting packets, drops, and bytes of payload that each flow delivered.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <iostream>
#include <string>
#include <vector>

using namespace ns3;

namespace {

double warmup = 0;
double changed = 0;
double integral = 0;
uint32_t waiting = 0;
uint64_t drops = 0;
std::vector<uint64_t> delivered;

void Account() {
    const double now = Simulator::Now().GetSeconds();
    integral += waiting * (std::max(now, warmup) - std::max(changed, warmup));
    changed = now;
}

void OnLength(uint32_t, uint32_t now) {
    Account();
    waiting = now;
}

void OnDrop(Ptr<const QueueDiscItem>) { drops += Simulator::Now().GetSeconds() >= warmup; }

void OnReceive(uint32_t flow, Ptr<const Packet> packet, const Address&) {
    if (Simulator::Now().GetSeconds() >= warmup) {
        delivered[flow] += packet->GetSize();
    }
}

// What stands before the link.
void SetQueue(TrafficControlHelper& control, const std::string& kind, uint32_t bytes, double rate, uint32_t seed) {
    if (kind == "codel") {
        control.SetRootQueueDisc("ns3::CoDelQueueDisc", "MaxSize", QueueSizeValue(QueueSize("1000p")), "MinBytes",
                                 UintegerValue(1500));
    } else if (kind == "fq-codel") {
        control.SetRootQueueDisc("ns3::FqCoDelQueueDisc", "Perturbation", UintegerValue(seed));
    } else {
        control.SetRootQueueDisc("ns3::RedQueueDisc", "MaxSize", QueueSizeValue(QueueSize("60p")), "MinTh",
                                 DoubleValue(5), "MaxTh", DoubleValue(15), "QW", DoubleValue(0.002), "LInterm",
                                 DoubleValue(10), "Gentle", BooleanValue(true), "Wait", BooleanValue(true),
                                 "MeanPktSize", UintegerValue(bytes), "LinkBandwidth",
                                 DataRateValue(DataRate(static_cast<uint64_t>(rate))), "LinkDelay",
                                 TimeValue(MilliSeconds(20)));
    }
}

}  // namespace

int main(int argc, char* argv[]) {
    if (argc < 9) {
        std::cerr << "usage: queue codel|fq-codel|red udp|sack RATE BYTES WARMUP SECONDS SEED START...\n";
        return 2;
    }
    const std::string kind = argv[1];
    const bool udp = std::string(argv[2]) == "udp";
    const double rate = std::stod(argv[3]), seconds = std::stod(argv[6]);
    const uint32_t bytes = std::stoul(argv[4]), seed = std::stoul(argv[7]);
    const auto flows = static_cast<uint32_t>(argc - 8);
    warmup = std::stod(argv[5]);
    delivered.resize(flows);
    RngSeedManager::SetRun(seed);
    const uint32_t segment = bytes - 40;
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::TcpNewReno")));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TypeId::LookupByName("ns3::TcpClassicRecovery")));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(0.2)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(segment));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1000 * segment));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1000 * segment));

    NodeContainer nodes;
    nodes.Create(flows + 2);
    InternetStackHelper().Install(nodes);
    // The header of the link makes each packet 2 bytes longer.
    const auto wire = [&](double bit_s) { return DataRateValue(DataRate(uint64_t(bit_s * (bytes + 2) / bytes))); };
    PointToPointHelper links;
    links.SetDeviceAttribute("DataRate", wire(rate));
    // One packet more waits in the device, behind the discipline: the way is shorter by its time.
    links.SetChannelAttribute("Delay", TimeValue(Seconds(0.020 - bytes * 8 / rate)));
    links.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p"));
    NetDeviceContainer bottleneck = links.Install(nodes.Get(flows), nodes.Get(flows + 1));
    TrafficControlHelper control;
    SetQueue(control, kind, bytes, rate, seed);
    Ptr<QueueDisc> queue = control.Install(bottleneck.Get(0)).Get(0);
    if (kind == "fq-codel") {
        DynamicCast<FqCoDelQueueDisc>(queue)->SetQuantum(1514);
    }
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.0.0", "255.255.255.252");
    const Ipv4Address sink = addresses.Assign(bottleneck).GetAddress(1);
    links.SetDeviceAttribute("DataRate", wire(100e6));
    links.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("10000p"));
    for (uint32_t flow = 0; flow < flows; ++flow) {
        links.SetChannelAttribute("Delay", TimeValue(MicroSeconds(1000 + 370 * flow)));
        const NetDeviceContainer access = links.Install(nodes.Get(flow), nodes.Get(flows));
        addresses.NewNetwork();
        addresses.Assign(access);
        TrafficControlHelper().Uninstall(access);
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    for (uint32_t flow = 0; flow < flows; ++flow) {
        const uint16_t port = 1000 + flow;
        const std::string factory = udp ? "ns3::UdpSocketFactory" : "ns3::TcpSocketFactory";
        ApplicationContainer source;
        if (udp) {
            UdpClientHelper client(sink, port);
            const double share = 1.2 * rate * (flow + 1) / (flows * (flows + 1) / 2.0);
            client.SetAttribute("Interval", TimeValue(Seconds(bytes * 8 / share)));
            client.SetAttribute("PacketSize", UintegerValue(bytes - 28));
            client.SetAttribute("MaxPackets", UintegerValue(1000000000));
            source = client.Install(nodes.Get(flow));
        } else {
            BulkSendHelper send(factory, InetSocketAddress(sink, port));
            send.SetAttribute("SendSize", UintegerValue(segment));
            source = send.Install(nodes.Get(flow));
        }
        source.Start(Seconds(std::stod(argv[8 + flow])));
        PacketSinkHelper target(factory, InetSocketAddress(Ipv4Address::GetAny(), port));
        ApplicationContainer receiving = target.Install(nodes.Get(flows + 1));
        receiving.Start(Seconds(0.0));
        receiving.Get(0)->TraceConnectWithoutContext("Rx", MakeBoundCallback(&OnReceive, flow));
    }
    queue->TraceConnectWithoutContext("PacketsInQueue", MakeCallback(&OnLength));
    queue->TraceConnectWithoutContext("Drop", MakeCallback(&OnDrop));
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    Account();
    std::cout << integral / (seconds - warmup) << " " << drops;
    for (const uint64_t bytes_of_flow : delivered) {
        std::cout << " " << bytes_of_flow;
    }
    std::cout << "\n";
    Simulator::Destroy();
}
