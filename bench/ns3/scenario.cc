// Runs a benchmark scenario in ns-3. `bench/run.py` writes the description that this program reads, builds it against
// the installed ns-3, and starts it: `scenario DESCRIPTION`. It prints one line of JSON: {"packet_hops", "setup_s"}.
// Counting packet-hops is one call for each, which is lost in the thousands of nanoseconds that ns-3 needs for one.
//
// The description has one statement a line, nodes being numbers:
//   nodes N
//   link A B RATE_AB RATE_BA DELAY QUEUE_AB QUEUE_BA ERROR_AB ERROR_BA   bit/s, seconds, packets, probability
//   outage A B START LENGTH                                              all packets of the link are lost
//   flow SOURCE SINK sack|reno PACKET WINDOW EARLIEST LATEST             bytes, packets, seconds
//   run SECONDS

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/nix-vector-routing-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <utility>

using namespace ns3;

namespace {

uint64_t packetHops = 0;

void CountHop(Ptr<const Packet>) { ++packetHops; }

void SetErrorRate(Ptr<RateErrorModel> model, double rate) { model->SetRate(rate); }

struct Link {
    Ptr<RateErrorModel> errors[2];
    double rates[2];
};

// What the statements build up.
class Scenario {
public:
    void Read(std::istream& description) {
        std::string line;
        while (std::getline(description, line)) {
            std::istringstream words(line);
            std::string statement;
            words >> statement;
            if (statement == "nodes") {
                MakeNodes(words);
            } else if (statement == "link") {
                MakeLink(words);
            } else if (statement == "outage") {
                MakeOutage(words);
            } else if (statement == "flow") {
                MakeFlow(words);
            } else if (statement == "run") {
                words >> duration_;
            }
        }
    }

    double Duration() const { return duration_; }

private:
    void MakeNodes(std::istream& words) {
        uint32_t number;
        words >> number;
        nodes_.Create(number);
        // A source route is computed once for each flow; forwarding then costs little.
        Ipv4NixVectorHelper routing;
        InternetStackHelper stack;
        stack.SetRoutingHelper(routing);
        stack.SetIpv6StackInstall(false);
        stack.Install(nodes_);
        addresses_.SetBase("10.0.0.0", "255.255.255.252");
    }

    void MakeLink(std::istream& words) {
        uint32_t ends[2];
        double rates[2], delay, errors[2];
        uint32_t queues[2];
        words >> ends[0] >> ends[1] >> rates[0] >> rates[1] >> delay >> queues[0] >> queues[1] >> errors[0] >> errors[1];
        PointToPointHelper helper;
        helper.SetChannelAttribute("Delay", TimeValue(Seconds(delay)));
        NetDeviceContainer devices = helper.Install(nodes_.Get(ends[0]), nodes_.Get(ends[1]));
        Link link;
        for (int side = 0; side < 2; ++side) {
            auto device = DynamicCast<PointToPointNetDevice>(devices.Get(side));
            device->SetDataRate(DataRate(static_cast<uint64_t>(rates[side])));
            // The packet in service is not in the queue.
            auto queue = CreateObject<DropTailQueue<Packet>>();
            queue->SetMaxSize(QueueSize(QueueSizeUnit::PACKETS, queues[side] - 1));
            device->SetQueue(queue);
            // Losses of a direction are found out by the device at its far end.
            auto model = CreateObject<RateErrorModel>();
            model->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
            model->SetRate(errors[side]);
            if (errors[side] > 0.0) {
                devices.Get(1 - side)->GetObject<PointToPointNetDevice>()->SetReceiveErrorModel(model);
            }
            link.errors[side] = model;
            link.rates[side] = errors[side];
            device->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&CountHop));
        }
        Ipv4InterfaceContainer interfaces = addresses_.Assign(devices);
        addresses_.NewNetwork();
        // The default queue discipline of an interface would stand before the drop-tail queue.
        TrafficControlHelper().Uninstall(devices);
        for (int side = 0; side < 2; ++side) {
            address_[ends[side]] = interfaces.GetAddress(side);
        }
        links_[{ends[0], ends[1]}] = link;
    }

    void MakeOutage(std::istream& words) {
        uint32_t from, to;
        double start, length;
        words >> from >> to >> start >> length;
        Link& link = links_.at({from, to});
        for (int side = 0; side < 2; ++side) {
            Simulator::Schedule(Seconds(start), &SetErrorRate, link.errors[side], 1.0);
            Simulator::Schedule(Seconds(start + length), &SetErrorRate, link.errors[side], link.rates[side]);
        }
    }

    void MakeFlow(std::istream& words) {
        uint32_t source, sink, packet, window;
        std::string sender;
        double earliest, latest;
        words >> source >> sink >> sender >> packet >> window >> earliest >> latest;
        Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpLinuxReno::GetTypeId()));
        Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(sender == "sack"));
        Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
        Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(packet));
        Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(2));
        Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
        Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(0.2)));
        Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(window * packet));
        Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(window * packet));
        const uint16_t port = ++port_;
        BulkSendHelper send("ns3::TcpSocketFactory", InetSocketAddress(address_.at(sink), port));
        // Another size would be sent as short segments.
        send.SetAttribute("SendSize", UintegerValue(packet));
        ApplicationContainer sending = send.Install(nodes_.Get(source));
        PacketSinkHelper receive("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        receive.Install(nodes_.Get(sink)).Start(Seconds(0.0));
        auto uniform = CreateObject<UniformRandomVariable>();
        sending.Start(Seconds(earliest == latest ? earliest : uniform->GetValue(earliest, latest)));
    }

    double duration_ = 0.0;
    uint16_t port_ = 1000;
    NodeContainer nodes_;
    Ipv4AddressHelper addresses_;
    std::map<uint32_t, Ipv4Address> address_;
    std::map<std::pair<uint32_t, uint32_t>, Link> links_;
};

} // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: scenario DESCRIPTION\n";
        return 2;
    }
    std::ifstream description(argv[1]);
    if (!description) {
        std::cerr << "scenario: cannot read " << argv[1] << "\n";
        return 2;
    }
    Scenario scenario;
    scenario.Read(description);
    const double setup = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
    Simulator::Stop(Seconds(scenario.Duration()));
    Simulator::Run();
    std::cout << "{\"packet_hops\": " << packetHops << ", \"setup_s\": " << setup << "}\n";
    Simulator::Destroy();
    return 0;
}
