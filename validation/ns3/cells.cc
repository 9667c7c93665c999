// Several stations of 802.11n, ac or ax and their access point in ns-3.44; `validation/wifi_cells.py` builds and runs it.
//
// 5 GHz, every station hears the others unless --hidden. Each sends datagrams to the access point, or receives them
// from there, faster than the air carries. Beacons are rare, nothing dies of age, no queue discipline stands above the
// MAC, and addresses are known. Prints for each station the bytes of payload that arrived in --seconds, 0.3 s after
// the load has begun.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/propagation-module.h"
#include "ns3/traffic-control-module.h"
#include "ns3/wifi-module.h"

#include <cstdint>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

using namespace ns3;

namespace {

struct Options {
    std::string generation = "n";
    std::string categories = "be";
    uint32_t mcs = 0;
    uint32_t width = 20;
    uint32_t guard = 800;
    uint32_t ampdu = 65535;
    uint32_t stations = 1;
    uint32_t payload = 1472;
    uint32_t seed = 1;
    double loss = 0;
    double mbit = 1;
    double seconds = 1;
    bool down = false;
    bool hidden = false;
    bool rts = false;
    bool request = true;
};

Options Read(int argc, char* argv[]) {
    Options options;
    CommandLine line;
    line.AddValue("generation", "n, ac or ax", options.generation);
    line.AddValue("categories", "of the stations in turn, with commas: bk, be, vi, vo", options.categories);
    line.AddValue("mcs", "MCS", options.mcs);
    line.AddValue("width", "MHz", options.width);
    line.AddValue("guard", "guard interval, ns", options.guard);
    line.AddValue("ampdu", "largest A-MPDU, bytes", options.ampdu);
    line.AddValue("stations", "number of stations", options.stations);
    line.AddValue("payload", "bytes of a datagram", options.payload);
    line.AddValue("seed", "seed", options.seed);
    line.AddValue("loss", "share of MPDUs and of answers that is lost", options.loss);
    line.AddValue("mbit", "offered by each station, Mbit/s", options.mbit);
    line.AddValue("seconds", "measured", options.seconds);
    line.AddValue("down", "to the stations", options.down);
    line.AddValue("hidden", "stations do not hear each other", options.hidden);
    line.AddValue("rts", "RTS before every A-MPDU", options.rts);
    line.AddValue("request", "BlockAckReq after a BlockAck that did not come", options.request);
    line.Parse(argc, argv);
    return options;
}

double from = 0;
std::vector<uint64_t> received;

void OnPacket(std::size_t station, Ptr<const Packet> packet, const Address&) {
    if (Simulator::Now().GetSeconds() >= from) {
        received[station] += packet->GetSize();
    }
}

// The code point of a category: the user priority is its three highest bits.
uint8_t TypeOfService(const std::string& category) {
    return category == "vo" ? 6 << 5 : category == "vi" ? 5 << 5 : category == "bk" ? 1 << 5 : 0;
}

Ptr<YansWifiChannel> Channel(Ptr<MatrixPropagationLossModel> losses) {
    auto channel = CreateObject<YansWifiChannel>();
    channel->SetPropagationDelayModel(CreateObject<ConstantSpeedPropagationDelayModel>());
    losses->SetDefaultLoss(50);
    channel->SetPropagationLossModel(losses);
    return channel;
}

// Begins when the stations have joined.
void Hide(const NodeContainer& nodes, Ptr<MatrixPropagationLossModel> losses) {
    for (uint32_t one = 1; one < nodes.GetN(); ++one) {
        for (uint32_t other = one + 1; other < nodes.GetN(); ++other) {
            losses->SetLoss(nodes.Get(one)->GetObject<MobilityModel>(), nodes.Get(other)->GetObject<MobilityModel>(),
                            300);
        }
    }
}

NetDeviceContainer Install(const Options& options, const NodeContainer& nodes,
                           Ptr<MatrixPropagationLossModel> losses) {
    YansWifiPhyHelper phy;
    phy.SetChannel(Channel(losses));
    phy.Set("ChannelSettings", StringValue("{0, " + std::to_string(options.width) + ", BAND_5GHZ, 0}"));
    WifiHelper wifi;
    const std::string& generation = options.generation;
    wifi.SetStandard(generation == "n"    ? WIFI_STANDARD_80211n
                     : generation == "ac" ? WIFI_STANDARD_80211ac
                                          : WIFI_STANDARD_80211ax);
    const std::string kind = generation == "n" ? "HtMcs" : generation == "ac" ? "VhtMcs" : "HeMcs";
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager", "DataMode",
                                 StringValue(kind + std::to_string(options.mcs)), "ControlMode",
                                 StringValue("OfdmRate24Mbps"), "RtsCtsThreshold",
                                 UintegerValue(options.rts ? 0 : 4'692'480));
    if (generation == "ax") {
        wifi.ConfigHeOptions("GuardInterval", TimeValue(NanoSeconds(options.guard)));
    } else {
        wifi.ConfigHtOptions("ShortGuardIntervalSupported", BooleanValue(options.guard == 400));
    }
    const UintegerValue ampdu(options.ampdu);
    WifiMacHelper mac;
    const Ssid ssid("cell");
    mac.SetType("ns3::ApWifiMac", "Ssid", SsidValue(ssid), "BeaconInterval", TimeValue(MicroSeconds(1'024'000)),
                "BE_MaxAmpduSize", ampdu, "BK_MaxAmpduSize", ampdu, "VI_MaxAmpduSize", ampdu, "VO_MaxAmpduSize", ampdu);
    NetDeviceContainer devices = wifi.Install(phy, mac, nodes.Get(0));
    mac.SetType("ns3::StaWifiMac", "Ssid", SsidValue(ssid), "BE_MaxAmpduSize", ampdu, "BK_MaxAmpduSize", ampdu,
                "VI_MaxAmpduSize", ampdu, "VO_MaxAmpduSize", ampdu);
    for (uint32_t station = 1; station < nodes.GetN(); ++station) {
        devices.Add(wifi.Install(phy, mac, nodes.Get(station)));
    }
    return devices;
}

// Begins when the stations have joined.
void LoseFrames(const NetDeviceContainer& devices, double rate) {
    for (uint32_t index = 0; index < devices.GetN(); ++index) {
        auto errors = CreateObject<RateErrorModel>();
        errors->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
        errors->SetRate(rate);
        DynamicCast<WifiNetDevice>(devices.Get(index))->GetPhy()->SetPostReceptionErrorModel(errors);
    }
}

}  // namespace

int main(int argc, char* argv[]) {
    const Options options = Read(argc, argv);
    from = 2.2;
    received.resize(options.stations);
    RngSeedManager::SetSeed(options.seed);
    Config::SetDefault("ns3::WifiMacQueue::MaxDelay", TimeValue(Seconds(1000)));
    Config::SetDefault("ns3::QosTxop::UseExplicitBarAfterMissedBlockAck", BooleanValue(options.request));
    NodeContainer nodes;
    nodes.Create(options.stations + 1);
    auto places = CreateObject<ListPositionAllocator>();
    for (uint32_t node = 0; node <= options.stations; ++node) {
        places->Add(Vector(node == 0 ? 0 : 2, 0, 0));
    }
    MobilityHelper mobility;
    mobility.SetPositionAllocator(places);
    mobility.Install(nodes);
    auto losses = CreateObject<MatrixPropagationLossModel>();
    const NetDeviceContainer devices = Install(options, nodes, losses);
    if (options.hidden) {
        Simulator::Schedule(MilliSeconds(1800), &Hide, nodes, losses);
    }
    if (options.loss > 0) {
        Simulator::Schedule(MilliSeconds(1800), &LoseFrames, devices, options.loss);
    }
    InternetStackHelper internet;
    internet.Install(nodes);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    const Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
    TrafficControlHelper().Uninstall(devices);
    NeighborCacheHelper().PopulateNeighborCache();
    std::vector<std::string> categories;
    std::stringstream words(options.categories);
    for (std::string word; std::getline(words, word, ',');) {
        categories.push_back(word);
    }
    for (uint32_t station = 0; station < options.stations; ++station) {
        const uint32_t source = options.down ? 0 : station + 1;
        const uint32_t sink = options.down ? station + 1 : 0;
        const auto port = static_cast<uint16_t>(1000 + station);
        PacketSinkHelper receiver("ns3::UdpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        auto sinks = receiver.Install(nodes.Get(sink));
        sinks.Get(0)->TraceConnectWithoutContext("Rx", MakeBoundCallback(&OnPacket, std::size_t{station}));
        OnOffHelper sender("ns3::UdpSocketFactory", InetSocketAddress(interfaces.GetAddress(sink), port));
        sender.SetConstantRate(DataRate(static_cast<uint64_t>(options.mbit * 1e6)), options.payload);
        sender.SetAttribute("Tos", UintegerValue(TypeOfService(categories[station % categories.size()])));
        auto senders = sender.Install(nodes.Get(source));
        senders.Start(MicroSeconds(1'900'000 + 137 * station));
        // A few before it, one station at a time: agreements are made while nothing collides.
        sender.SetAttribute("MaxBytes", UintegerValue(4 * options.payload));
        auto first = sender.Install(nodes.Get(source));
        first.Start(MilliSeconds(1300 + 15 * station));
    }
    Simulator::Stop(Seconds(from + options.seconds));
    Simulator::Run();
    for (const uint64_t bytes : received) {
        std::cout << bytes << "\n";
    }
    Simulator::Destroy();
}
