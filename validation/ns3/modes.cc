// One station of 802.11n, ac or ax and its access point in ns-3.44:
// `modes n|ac|ax MCS WIDTH GUARD_NS STREAMS AMPDU udp|tcp up|down OFFERED_MBIT SECONDS SEED`.
//
// 5 GHz, no errors, datagrams of 1472 bytes or one NewReno connection with segments of 1448, SACK and delayed ACKs.
// Beacons are rare, nothing dies of age, and no queue discipline stands above the MAC. `validation/wifi.py` builds it
// and reads what it prints: bytes that the sink received in the second half of twice SECONDS.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/traffic-control-module.h"
#include "ns3/wifi-module.h"

#include <iostream>
#include <string>

using namespace ns3;

namespace {

double from = 0;
uint64_t received = 0;

void OnPacket(Ptr<const Packet> packet, const Address&) {
    if (Simulator::Now().GetSeconds() >= from) {
        received += packet->GetSize();
    }
}

std::string ModeName(const std::string& generation, uint32_t mcs, uint32_t streams) {
    if (generation == "n") {
        return "HtMcs" + std::to_string(mcs + 8 * (streams - 1));
    }
    return (generation == "ac" ? "VhtMcs" : "HeMcs") + std::to_string(mcs);
}

void SetDefaults() {
    Config::SetDefault("ns3::WifiMacQueue::MaxDelay", TimeValue(Seconds(1000)));
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::TcpNewReno")));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(8 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(8 << 20));
}

NetDeviceContainer Install(const std::string& generation, char* argv[], NodeContainer& nodes) {
    const auto mcs = static_cast<uint32_t>(std::stoul(argv[2]));
    const auto streams = static_cast<uint32_t>(std::stoul(argv[5]));
    YansWifiPhyHelper phy;
    phy.SetChannel(YansWifiChannelHelper::Default().Create());
    phy.Set("ChannelSettings", StringValue("{0, " + std::string(argv[3]) + ", BAND_5GHZ, 0}"));
    phy.Set("Antennas", UintegerValue(streams));
    phy.Set("MaxSupportedTxSpatialStreams", UintegerValue(streams));
    phy.Set("MaxSupportedRxSpatialStreams", UintegerValue(streams));
    WifiHelper wifi;
    wifi.SetStandard(generation == "n"    ? WIFI_STANDARD_80211n
                     : generation == "ac" ? WIFI_STANDARD_80211ac
                                          : WIFI_STANDARD_80211ax);
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager", "DataMode",
                                 StringValue(ModeName(generation, mcs, streams)), "ControlMode",
                                 StringValue("OfdmRate24Mbps"));
    const uint64_t guard = std::stoul(argv[4]);
    if (generation == "ax") {
        wifi.ConfigHeOptions("GuardInterval", TimeValue(NanoSeconds(guard)));
    } else {
        wifi.ConfigHtOptions("ShortGuardIntervalSupported", BooleanValue(guard == 400));
    }
    const UintegerValue ampdu(std::stoul(argv[6]));
    WifiMacHelper mac;
    const Ssid ssid("cell");
    mac.SetType("ns3::ApWifiMac", "Ssid", SsidValue(ssid), "BeaconInterval", TimeValue(MicroSeconds(1'024'000)),
                "BE_MaxAmpduSize", ampdu);
    NetDeviceContainer devices = wifi.Install(phy, mac, nodes.Get(0));
    mac.SetType("ns3::StaWifiMac", "Ssid", SsidValue(ssid), "BE_MaxAmpduSize", ampdu);
    devices.Add(wifi.Install(phy, mac, nodes.Get(1)));
    return devices;
}

}  // namespace

int main(int argc, char* argv[]) {
    if (argc != 12) {
        std::cerr << "usage: modes n|ac|ax MCS WIDTH GUARD_NS STREAMS AMPDU udp|tcp up|down MBIT SECONDS SEED\n";
        return 2;
    }
    const bool tcp = std::string(argv[7]) == "tcp";
    const bool up = std::string(argv[8]) == "up";
    const double mbit = std::stod(argv[9]);
    from = std::stod(argv[10]);
    RngSeedManager::SetSeed(static_cast<uint32_t>(std::stoul(argv[11])));
    SetDefaults();
    NodeContainer nodes;
    nodes.Create(2);
    const NetDeviceContainer devices = Install(argv[1], argv, nodes);
    auto places = CreateObject<ListPositionAllocator>();
    places->Add(Vector(0, 0, 0));
    places->Add(Vector(2, 0, 0));
    MobilityHelper mobility;
    mobility.SetPositionAllocator(places);
    mobility.Install(nodes);
    InternetStackHelper internet;
    internet.Install(nodes);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    const Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
    TrafficControlHelper().Uninstall(devices);
    const uint32_t source = up ? 1 : 0;
    const uint32_t sink = 1 - source;
    const InetSocketAddress there(interfaces.GetAddress(sink), 9);
    const std::string factory = tcp ? "ns3::TcpSocketFactory" : "ns3::UdpSocketFactory";
    PacketSinkHelper receiver(factory, InetSocketAddress(Ipv4Address::GetAny(), 9));
    ApplicationContainer applications = receiver.Install(nodes.Get(sink));
    applications.Get(0)->TraceConnectWithoutContext("Rx", MakeCallback(&OnPacket));
    ApplicationContainer senders;
    if (tcp) {
        BulkSendHelper sender(factory, there);
        sender.SetAttribute("SendSize", UintegerValue(1448));
        senders = sender.Install(nodes.Get(source));
    } else {
        OnOffHelper sender(factory, there);
        sender.SetConstantRate(DataRate(static_cast<uint64_t>(mbit * 1e6)), 1472);
        senders = sender.Install(nodes.Get(source));
    }
    senders.Start(Seconds(1.5));
    Simulator::Stop(Seconds(2 * from));
    Simulator::Run();
    std::cout << received << "\n";
    Simulator::Destroy();
}
