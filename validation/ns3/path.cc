// Runs one TCP flow over one path in ns-3 and prints its window over time: `path TYPE RATE DELAY QUEUE PER SECONDS SEED`.
//
// Source - 100 Mbit/s, 1 ms - router - RATE (bit/s), DELAY (s), drop-tail QUEUE (packets), packet error rate PER - sink.
// Segments carry 1000 bytes. `validation/ns3_path.py` builds it against the installed ns-3 and reads what it prints:
// "w TIME CWND" in segments every 50 ms, and at the end "f GOODPUT RETRANSMITTED" in bit/s and segments.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <iostream>
#include <set>
#include <string>

using namespace ns3;

namespace {

constexpr uint32_t kSegment = 1000;

double window = 0;
uint64_t retransmitted = 0;
uint64_t received = 0;
SequenceNumber32 highest;

void OnWindow(uint32_t, uint32_t now) { window = double(now) / kSegment; }

void OnSend(Ptr<const Packet> packet, const TcpHeader& header, Ptr<const TcpSocketBase>) {
    if (packet->GetSize() == 0) {
        return;
    }
    if (header.GetSequenceNumber() < highest) {
        ++retransmitted;
    } else {
        highest = header.GetSequenceNumber() + packet->GetSize();
    }
}

void OnReceive(Ptr<const Packet> packet, const Address&) { received += packet->GetSize(); }

void Watch(Ptr<BulkSendApplication> application) {
    Ptr<Socket> socket = application->GetSocket();
    socket->TraceConnectWithoutContext("CongestionWindow", MakeCallback(&OnWindow));
    socket->TraceConnectWithoutContext("Tx", MakeCallback(&OnSend));
}

void Sample() {
    std::cout << "w " << Simulator::Now().GetSeconds() << " " << window << "\n";
    Simulator::Schedule(MilliSeconds(50), &Sample);
}

}  // namespace

int main(int argc, char* argv[]) {
    if (argc != 8) {
        std::cerr << "usage: path TYPE RATE DELAY QUEUE PER SECONDS SEED\n";
        return 2;
    }
    const std::string type = argv[1];
    const double rate = std::stod(argv[2]), delay = std::stod(argv[3]), per = std::stod(argv[5]);
    const double seconds = std::stod(argv[6]);
    const uint32_t queue = std::stoul(argv[4]);
    RngSeedManager::SetRun(std::stoul(argv[7]));

    const bool plus = type == "TcpWestwoodPlus";
    if (plus) {
        Config::SetDefault("ns3::TcpWestwood::ProtocolType", EnumValue(TcpWestwood::WESTWOODPLUS));
    }
    const std::string class_name = "ns3::" + (plus ? "TcpWestwood" : type);
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName(class_name)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(kSegment));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1000 * kSegment));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1000 * kSegment));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(0.2)));

    NodeContainer nodes;
    nodes.Create(3);
    InternetStackHelper().Install(nodes);
    PointToPointHelper access, bottleneck;
    access.SetDeviceAttribute("DataRate", StringValue("100Mbps"));
    access.SetChannelAttribute("Delay", TimeValue(MilliSeconds(1)));
    bottleneck.SetDeviceAttribute("DataRate", DataRateValue(DataRate(static_cast<uint64_t>(rate))));
    bottleneck.SetChannelAttribute("Delay", TimeValue(Seconds(delay)));
    NetDeviceContainer first = access.Install(nodes.Get(0), nodes.Get(1));
    NetDeviceContainer second = bottleneck.Install(nodes.Get(1), nodes.Get(2));
    auto room = CreateObject<DropTailQueue<Packet>>();
    // The packet in service is not in the queue.
    room->SetMaxSize(QueueSize(QueueSizeUnit::PACKETS, queue - 1));
    DynamicCast<PointToPointNetDevice>(second.Get(0))->SetQueue(room);
    auto wide = CreateObject<DropTailQueue<Packet>>();
    wide->SetMaxSize(QueueSize(QueueSizeUnit::PACKETS, 10000));
    DynamicCast<PointToPointNetDevice>(first.Get(0))->SetQueue(wide);
    if (per > 0.0) {
        auto model = CreateObject<RateErrorModel>();
        model->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
        model->SetRate(per);
        DynamicCast<PointToPointNetDevice>(second.Get(1))->SetReceiveErrorModel(model);
    }
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.0.0", "255.255.255.252");
    addresses.Assign(first);
    addresses.NewNetwork();
    Ipv4InterfaceContainer far = addresses.Assign(second);
    // The default queue discipline of an interface would stand before the drop-tail queue.
    TrafficControlHelper().Uninstall(first);
    TrafficControlHelper().Uninstall(second);
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    BulkSendHelper send("ns3::TcpSocketFactory", InetSocketAddress(far.GetAddress(1), 9));
    send.SetAttribute("SendSize", UintegerValue(kSegment));
    ApplicationContainer sending = send.Install(nodes.Get(0));
    sending.Start(Seconds(0.0));
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9));
    ApplicationContainer receiving = sink.Install(nodes.Get(2));
    receiving.Start(Seconds(0.0));
    receiving.Get(0)->TraceConnectWithoutContext("Rx", MakeCallback(&OnReceive));
    // The socket is made when the application starts.
    Simulator::Schedule(NanoSeconds(1), &Watch, DynamicCast<BulkSendApplication>(sending.Get(0)));
    Simulator::Schedule(Seconds(0.0), &Sample);
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    std::cout << "f " << 8.0 * received / seconds << " " << retransmitted << "\n";
    Simulator::Destroy();
}
