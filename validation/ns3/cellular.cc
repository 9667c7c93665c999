// One cell of ns-3's LTE: `cellular am|um rr|pf HARQ ERRORS BER RATE BYTES WARMUP SECONDS SEED REORDERING DISTANCE...`.
//
// A server, 1 Gbit/s and 10 ms, the core, one base station of 50 resource blocks, a user at each DISTANCE (m, without
// fading). Each user gets UDP packets of BYTES (IP) at RATE (bit/s of IP packets), or one TCP connection if RATE is 0.
// HARQ and ERRORS are 0 or 1; BER sets how bold the choice of the modulation is. REORDERING is in ms.
// `validation/cellular.py` builds it against the installed ns-3 and reads what it prints, in one JSON object: by user
// bytes of payload from WARMUP on and their delays in microseconds; transport blocks by number of the transmission and
// whether they could be decoded; sizes of blocks and how often they came.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/lte-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

#include <iostream>
#include <map>
#include <string>
#include <vector>

using namespace ns3;

namespace {

double warmup = 0;
std::vector<uint64_t> delivered;
std::vector<std::vector<uint64_t>> delays;
// By redundancy version: blocks that failed, and blocks that came.
std::map<int, std::pair<uint64_t, uint64_t>> blocks;
std::map<uint32_t, uint64_t> sizes;

bool Counts() { return Simulator::Now().GetSeconds() >= warmup; }

void OnDatagram(uint32_t user, Ptr<const Packet> packet) {
    if (!Counts()) {
        return;
    }
    SeqTsHeader header;
    packet->Copy()->RemoveHeader(header);
    delivered[user] += packet->GetSize();
    delays[user].push_back(static_cast<uint64_t>((Simulator::Now() - header.GetTs()).GetMicroSeconds()));
}

void OnSegment(uint32_t user, Ptr<const Packet> packet, const Address&) {
    if (Counts()) {
        delivered[user] += packet->GetSize();
    }
}

void OnBlock(PhyReceptionStatParameters seen) {
    if (!Counts()) {
        return;
    }
    auto& [failed, came] = blocks[seen.m_rv];
    (seen.m_correctness ? came : failed) += 1;
    if (seen.m_rv == 0) {
        sizes[seen.m_size] += 1;
    }
}

}  // namespace

int main(int argc, char* argv[]) {
    if (argc < 13) {
        std::cerr << "usage: cellular am|um rr|pf HARQ ERRORS BER RATE BYTES WARMUP SECONDS SEED REORDERING DISTANCE...\n";
        return 2;
    }
    const bool acknowledged = std::string(argv[1]) == "am", in_turn = std::string(argv[2]) == "rr";
    const bool harq = std::stoi(argv[3]) != 0, errors = std::stoi(argv[4]) != 0;
    const double ber = std::stod(argv[5]), rate = std::stod(argv[6]), seconds = std::stod(argv[9]);
    const uint32_t bytes = std::stoul(argv[7]), seed = std::stoul(argv[10]);
    const Time reordering = MilliSeconds(std::stoul(argv[11]));
    const auto users = static_cast<uint32_t>(argc - 12);
    warmup = std::stod(argv[8]);
    delivered.resize(users);
    delays.resize(users);
    RngSeedManager::SetRun(seed);

    Config::SetDefault("ns3::LteSpectrumPhy::CtrlErrorModelEnabled", BooleanValue(false));
    Config::SetDefault("ns3::LteSpectrumPhy::DataErrorModelEnabled", BooleanValue(errors));
    Config::SetDefault("ns3::LteAmc::AmcModel", EnumValue(LteAmc::PiroEW2010));
    Config::SetDefault("ns3::LteAmc::Ber", DoubleValue(ber));
    Config::SetDefault("ns3::LteEnbRrc::EpsBearerToRlcMapping",
                       EnumValue(acknowledged ? LteEnbRrc::RLC_AM_ALWAYS : LteEnbRrc::RLC_UM_ALWAYS));
    Config::SetDefault("ns3::LteRlcAm::MaxTxBufferSize", UintegerValue(1000000));
    Config::SetDefault("ns3::LteRlcUm::MaxTxBufferSize", UintegerValue(1000000));
    Config::SetDefault("ns3::LteRlcAm::ReorderingTimer", TimeValue(reordering));
    // So that its departures from TS 36.322 matter little; validation/cellular.py names them.
    Config::SetDefault("ns3::LteRlcAm::StatusProhibitTimer", TimeValue(Seconds(0)));
    Config::SetDefault("ns3::LteRlcAm::PollRetransmitTimer", TimeValue(Seconds(1)));
    Config::SetDefault("ns3::LteRlcUm::ReorderingTimer", TimeValue(reordering));
    Config::SetDefault("ns3::LteEnbRrc::SrsPeriodicity", UintegerValue(80));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(bytes - 52));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(4000000));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(4000000));
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpNewReno::GetTypeId()));

    auto lte = CreateObject<LteHelper>();
    auto core = CreateObject<PointToPointEpcHelper>();
    lte->SetEpcHelper(core);
    lte->SetSchedulerType(in_turn ? "ns3::RrFfMacScheduler" : "ns3::PfFfMacScheduler");
    lte->SetSchedulerAttribute("HarqEnabled", BooleanValue(harq));
    lte->SetEnbDeviceAttribute("DlBandwidth", UintegerValue(50));
    lte->SetEnbDeviceAttribute("UlBandwidth", UintegerValue(50));

    NodeContainer server(1), base(1), phones(users);
    InternetStackHelper internet;
    internet.Install(server);
    internet.Install(phones);
    PointToPointHelper wire;
    wire.SetDeviceAttribute("DataRate", StringValue("1Gbps"));
    wire.SetDeviceAttribute("Mtu", UintegerValue(1500));
    wire.SetChannelAttribute("Delay", StringValue("10ms"));
    const auto ends = wire.Install(core->GetPgwNode(), server.Get(0));
    Ipv4AddressHelper addresses("1.0.0.0", "255.0.0.0");
    const auto given = addresses.Assign(ends);
    Ipv4StaticRoutingHelper routes;
    routes.GetStaticRouting(server.Get(0)->GetObject<Ipv4>())
        ->AddNetworkRouteTo(Ipv4Address("7.0.0.0"), Ipv4Mask("255.0.0.0"), 1);

    auto places = CreateObject<ListPositionAllocator>();
    places->Add(Vector(0, 0, 30));
    for (uint32_t user = 0; user < users; ++user) {
        places->Add(Vector(std::stod(argv[12 + user]), 0, 1.5));
    }
    MobilityHelper mobility;
    mobility.SetPositionAllocator(places);
    mobility.SetMobilityModel("ns3::ConstantPositionMobilityModel");
    mobility.Install(base);
    mobility.Install(phones);
    const auto base_device = lte->InstallEnbDevice(base);
    const auto devices = lte->InstallUeDevice(phones);
    const auto phone_addresses = core->AssignUeIpv4Address(NetDeviceContainer(devices));
    for (uint32_t user = 0; user < users; ++user) {
        routes.GetStaticRouting(phones.Get(user)->GetObject<Ipv4>())
            ->SetDefaultRoute(core->GetUeDefaultGatewayAddress(), 1);
    }
    lte->Attach(devices, base_device.Get(0));

    auto draw = CreateObject<UniformRandomVariable>();
    for (uint32_t user = 0; user < users; ++user) {
        const uint16_t port = 1000;
        const Address to = InetSocketAddress(phone_addresses.GetAddress(user), port);
        const Time start = Seconds(0.5 + draw->GetValue(0, 0.1));
        if (rate > 0) {
            UdpServerHelper sink(port);
            auto app = sink.Install(phones.Get(user)).Get(0);
            app->TraceConnectWithoutContext("Rx", MakeBoundCallback(&OnDatagram, user));
            UdpClientHelper source(phone_addresses.GetAddress(user), port);
            source.SetAttribute("MaxPackets", UintegerValue(0xffffffff));
            source.SetAttribute("Interval", TimeValue(Seconds(bytes * 8 / rate)));
            source.SetAttribute("PacketSize", UintegerValue(bytes - 28));
            source.Install(server.Get(0)).Start(start);
        } else {
            PacketSinkHelper sink("ns3::TcpSocketFactory", to);
            auto app = sink.Install(phones.Get(user)).Get(0);
            app->TraceConnectWithoutContext("Rx", MakeBoundCallback(&OnSegment, user));
            BulkSendHelper source("ns3::TcpSocketFactory", to);
            source.Install(server.Get(0)).Start(start);
        }
    }
    Config::ConnectWithoutContext(
        "/NodeList/*/DeviceList/*/ComponentCarrierMapUe/*/LteUePhy/DlSpectrumPhy/DlPhyReception",
        MakeCallback(&OnBlock));
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();

    std::cout << "{\"bytes\": [";
    for (uint32_t user = 0; user < users; ++user) {
        std::cout << (user ? ", " : "") << delivered[user];
    }
    std::cout << "], \"delays\": [";
    for (uint32_t user = 0; user < users; ++user) {
        std::cout << (user ? ", [" : "[");
        for (size_t place = 0; place < delays[user].size(); ++place) {
            std::cout << (place ? ", " : "") << delays[user][place];
        }
        std::cout << "]";
    }
    std::cout << "], \"blocks\": {";
    bool first = true;
    for (const auto& [version, counts] : blocks) {
        std::cout << (first ? "" : ", ") << "\"" << version << "\": [" << counts.first << ", " << counts.second << "]";
        first = false;
    }
    std::cout << "}, \"sizes\": {";
    first = true;
    for (const auto& [size, count] : sizes) {
        std::cout << (first ? "" : ", ") << "\"" << size << "\": " << count;
        first = false;
    }
    std::cout << "}}\n";
    Simulator::Destroy();
    return 0;
}
