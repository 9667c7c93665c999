// Saturated 802.11 stations in ns-3: `saturation dsss|ofdm STATIONS RTS SECONDS SEED`.
//
// Stations on a circle of five metres send packets of 1024 bytes to the node in its middle, ad hoc, without QoS, as
// fast as they can: DSSS at 11 Mbit/s with answers at 1 Mbit/s, or OFDM at 54 Mbit/s with answers at 24. RTS is "on" or
// "off". `validation/saturation.py` builds it against the installed ns-3 and reads what it prints: bytes received in
// the second half of twice SECONDS.

#include "ns3/core-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/wifi-module.h"

#include <cmath>
#include <iostream>
#include <string>

using namespace ns3;

namespace {

constexpr uint32_t kBytes = 1024;

double from = 0;
uint64_t received = 0;

void OnPacket(Ptr<Socket> socket) {
    while (Ptr<Packet> packet = socket->Recv()) {
        if (Simulator::Now().GetSeconds() >= from) {
            received += packet->GetSize();
        }
    }
}

}  // namespace

int main(int argc, char* argv[]) {
    if (argc != 6) {
        std::cerr << "usage: saturation dsss|ofdm STATIONS on|off SECONDS SEED\n";
        return 2;
    }
    const bool dsss = std::string(argv[1]) == "dsss";
    const auto stations = static_cast<uint32_t>(std::stoul(argv[2]));
    const bool rts = std::string(argv[3]) == "on";
    const double seconds = std::stod(argv[4]);
    from = seconds;
    RngSeedManager::SetSeed(static_cast<uint32_t>(std::stoul(argv[5])));
    Config::SetDefault("ns3::WifiRemoteStationManager::RtsCtsThreshold", UintegerValue(rts ? 0 : 4692480));

    NodeContainer nodes;
    nodes.Create(stations + 1);
    YansWifiPhyHelper phy;
    phy.SetChannel(YansWifiChannelHelper::Default().Create());
    WifiHelper wifi;
    wifi.SetStandard(dsss ? WIFI_STANDARD_80211b : WIFI_STANDARD_80211a);
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager", "DataMode",
                                 StringValue(dsss ? "DsssRate11Mbps" : "OfdmRate54Mbps"), "ControlMode",
                                 StringValue(dsss ? "DsssRate1Mbps" : "OfdmRate24Mbps"));
    WifiMacHelper mac;
    mac.SetType("ns3::AdhocWifiMac", "QosSupported", BooleanValue(false));
    const NetDeviceContainer devices = wifi.Install(phy, mac, nodes);

    auto places = CreateObject<ListPositionAllocator>();
    places->Add(Vector(0, 0, 0));
    for (uint32_t station = 0; station < stations; ++station) {
        const double angle = 2 * M_PI * station / stations;
        places->Add(Vector(5 * std::cos(angle), 5 * std::sin(angle), 0));
    }
    MobilityHelper mobility;
    mobility.SetPositionAllocator(places);
    mobility.Install(nodes);

    PacketSocketHelper packets;
    packets.Install(nodes);
    for (uint32_t station = 1; station <= stations; ++station) {
        PacketSocketAddress there;
        there.SetSingleDevice(devices.Get(station)->GetIfIndex());
        there.SetPhysicalAddress(devices.Get(0)->GetAddress());
        there.SetProtocol(1);
        auto client = CreateObject<PacketSocketClient>();
        client->SetRemote(there);
        client->SetAttribute("PacketSize", UintegerValue(kBytes));
        client->SetAttribute("MaxPackets", UintegerValue(0));
        client->SetAttribute("Interval", TimeValue(MicroSeconds(dsss ? 1500 : 250)));
        client->SetStartTime(MilliSeconds(10 * station));
        nodes.Get(station)->AddApplication(client);
    }
    PacketSocketAddress here;
    here.SetSingleDevice(devices.Get(0)->GetIfIndex());
    here.SetProtocol(1);
    Ptr<Socket> sink = Socket::CreateSocket(nodes.Get(0), TypeId::LookupByName("ns3::PacketSocketFactory"));
    sink->Bind(here);
    sink->SetRecvCallback(MakeCallback(&OnPacket));

    Simulator::Stop(Seconds(2 * seconds));
    Simulator::Run();
    std::cout << received << "\n";
    Simulator::Destroy();
}
