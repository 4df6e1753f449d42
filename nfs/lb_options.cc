// SPDX-License-Identifier: Apache-2.0
#include "nfs/lb_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/packet/flow_key.h"
#include "base/packet/ip_address_text.h"
#include "base/text_file.h"

namespace snf {
namespace {

using Endpoint = NfOptions::Endpoint;

constexpr size_t kMaxFileBytes = 1 << 20;

// Takes "*7" or "#7" off the end of `text`. Returns `otherwise` if there is no
// such mark, and nothing if what follows it is no number up to `max`.
std::optional<uint32_t> TakeNumber(std::string_view& text, char mark,
                                   uint32_t max, uint32_t otherwise) {
  const size_t at = text.rfind(mark);
  if (at == std::string_view::npos) return otherwise;
  const std::string_view number = text.substr(at + 1);
  text = text.substr(0, at);
  uint32_t value = 0;
  const char* const end = number.data() + number.size();
  const auto [rest, error] = std::from_chars(number.data(), end, value);
  if (error != std::errc() || rest != end || value > max) return std::nullopt;
  return value;
}

// Two hashes of a server, which is the same in all services of its host and
// port.
uint64_t HashOf(const LbEnd& end, uint16_t salt) {
  FlowKey key;
  key.source = end.address;
  key.source_port = end.port;
  key.vlan = be16(salt);
  key.form =
      end.is_ipv6 ? FlowKeyForm::kIpv6Endpoint : FlowKeyForm::kIpv4Endpoint;
  return Hash(key);
}

// Returns true if "10.0.0.1", "10.0.0.1:80", "2001:db8::1" or
// "[2001:db8::1]:80" names the end.
bool Names(std::string_view text, const LbEnd& end) {
  if (const auto endpoint = NfOptions::ParseEndpoint(text)) {
    return *endpoint == Endpoint{end.address, end.port, end.is_ipv6};
  }
  const std::optional<IpAddress> address =
      end.is_ipv6 ? ParseIpv6(text) : ParseIpv4(text);
  return address.has_value() && *address == end.address;
}

std::optional<LbServerName> ParseServer(std::string_view text) {
  constexpr uint32_t kNoId = 0xffff'ffff;
  const auto id = TakeNumber(text, '#', kNoId - 1, kNoId);
  const auto weight = TakeNumber(text, '*', MaglevTable::kMaxWeight, 1);
  const auto end = NfOptions::ParseEndpoint(text);
  if (!end.has_value() || !weight.has_value() || !id.has_value()) {
    return std::nullopt;
  }
  LbServerName server = {.end = *end, .weight = *weight, .quic_id = {}};
  if (*id != kNoId) server.quic_id = *id;
  return server;
}

constexpr std::array<std::string_view, 3> kProtocols = {"both", "tcp", "udp"};

// The services of a virtual end, of one protocol or of both.
void AddService(const Endpoint& end, size_t protocol,
                const std::vector<LbServerName>& own,
                std::vector<LbService>& services) {
  for (const IpProtocol one : {IpProtocol::kTcp, IpProtocol::kUdp}) {
    if (protocol == 1 && one == IpProtocol::kUdp) continue;
    if (protocol == 2 && one == IpProtocol::kTcp) continue;
    services.push_back({{end.address, end.port, one, end.is_ipv6}, own});
  }
}

// Asks for at most one address of each version of IP.
void AskSources(const std::string& key, std::string_view help,
                NfOptions& options, std::optional<IpAddress>& ipv4,
                std::optional<IpAddress>& ipv6) {
  for (const std::string& text : options.List(key, "ADDRESS", help)) {
    const auto v4 = ParseIpv4(text);
    const auto v6 = ParseIpv6(text);
    std::optional<IpAddress>& source = v4.has_value() ? ipv4 : ipv6;
    if ((!v4.has_value() && !v6.has_value()) || source.has_value()) {
      options.Fail(key,
                   "at most one address of each version of IP, joined by +, "
                   "such as 10.0.0.9+fd00::9; not \"" +
                       text + "\"");
    }
    source = v4.has_value() ? v4 : v6;
  }
}

using Services = std::vector<LbService>;

// Reads lines "tcp 192.0.2.10:80 10.0.0.1:8080*2 10.0.0.2:8080".
absl::StatusOr<Services> LoadServices(const std::string& file) {
  const absl::StatusOr<std::string> text = ReadTextFile(file, kMaxFileBytes);
  if (!text.ok()) return text.status();
  Services services;
  size_t number = 0;
  const std::vector<std::string> lines = absl::StrSplit(*text, '\n');
  for (const std::string& line : lines) {
    ++number;
    if (line.starts_with('#')) continue;  // a comment
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    const auto wrong = [&](const std::string& what) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ":", number, ": ", what));
    };
    const auto protocol = std::ranges::find(kProtocols, words[0]);
    if (protocol == kProtocols.end()) {
      return wrong("\"" + words[0] + "\": want tcp, udp or both");
    }
    if (words.size() < 3) {
      return wrong("want a virtual ADDRESS:PORT and servers behind it");
    }
    const auto end = NfOptions::ParseEndpoint(words[1]);
    if (!end.has_value()) {
      return wrong("\"" + words[1] + "\": want ADDRESS:PORT");
    }
    std::vector<LbServerName> own;
    for (size_t i = 2; i < words.size(); ++i) {
      const auto server = ParseServer(words[i]);
      if (!server.has_value()) {
        return wrong("\"" + words[i] + "\": want ADDRESS:PORT[*WEIGHT][#ID]");
      }
      own.push_back(*server);
    }
    AddService(*end, static_cast<size_t>(protocol - kProtocols.begin()), own,
               services);
  }
  return services;
}

}  // namespace

LbOptions::Asked LbOptions::Ask(NfOptions& options) {
  Asked asked;
  for (const std::string& part : options.List(
           "servers", "ADDRESS:PORT[*WEIGHT][#ID]",
           "the servers; weight 0 drains; ID stands in QUIC connection ids")) {
    if (auto server = ParseServer(part)) {
      asked.servers.push_back(*server);
    } else {
      options.Fail(
          "servers",
          absl::StrCat("addresses with ports, joined by +, each with a "
                       "weight up to 1000 if it is not 1, such as "
                       "10.0.0.1:8080*2; not \"",
                       part, "\""));
    }
  }
  asked.drain =
      options.List("drain", "ADDRESS[:PORT]",
                   "servers that get no new connections but keep the old ones");
  asked.down = options.List("down", "ADDRESS[:PORT]",
                            "servers that are treated as if they were removed");
  return asked;
}

LbOptions::LbOptions(NfOptions& options) {
  AddServices(options);
  const auto asked = options.Changing(Ask);
  table_size = static_cast<uint32_t>(options.Integer(
      "table", table_size, MaglevTable::kMinSize, MaglevTable::kMaxSize,
      "slots of a Maglev table, a prime; at least 100 for each server"));
  static constexpr std::array<std::string_view, 2> kAffinity = {"none",
                                                                "source"};
  affinity = static_cast<LbAffinity>(options.Choice(
      "affinity", 0, kAffinity,
      "source: all connections of a client address have the same server"));
  static constexpr std::array<std::string_view, 2> kRemoved = {"reset", "keep"};
  resets = options.Choice("removed", 0, kRemoved,
                          "fate of TCP connections whose server is removed or "
                          "down: a reset, or they go on") == 0;
  quic_id_bytes = static_cast<uint32_t>(options.Integer(
      "quic", 0, 0, 4,
      "bytes of server ID in QUIC connection ids; 0: no service is QUIC"));
  const auto timeout = [&options](const char* key, Nanos& value,
                                  const char* help) {
    value = options.Duration(key, value, Milliseconds(1), Seconds(31'536'000),
                             help);
  };
  timeout("tcp_opening_timeout", tcp_opening_timeout,
          "life of a TCP connection that has sent nothing but its SYN");
  timeout("tcp_timeout", tcp_timeout,
          "life of a TCP connection without packets");
  timeout("tcp_closing_timeout", tcp_closing_timeout,
          "life of a TCP connection after FIN of both ends, or a reset");
  timeout("udp_timeout", udp_timeout,
          "life of a UDP connection without packets");
  if (!MaglevTable::IsSize(table_size)) {
    options.Fail("table", absl::StrCat("a prime, such as 65537, from ",
                                       MaglevTable::kMinSize, " to ",
                                       MaglevTable::kMaxSize));
    table_size = 65'537;
  }
  AskForward(options);
  AskHealth(options);
  AddServers(asked, options);
  CheckForward(options);
  CheckHealth(options);
  // Errors about a change name its time.
  dated =
      options.Changing([this](NfOptions& o) { return ServersOf(Ask(o), o); });
}

void LbOptions::AskHealth(NfOptions& options) {
  health.AskCheck(
      "health check of servers: a TCP connection, or an HTTP request that is "
      "answered by 2xx or 3xx; sent while clients send",
      options);
  AskSources("checker",
             "source of health checks, one address of each version of IP that "
             "servers have; servers must answer it by way of SNF",
             options, health.source_ipv4, health.source_ipv6);
  health.AskRounds(options);
  health.AskPort(0, 0,
                 "TCP port that is checked; 0: the server's own, also if it "
                 "serves UDP",
                 options);
  health.AskPath(options);
}

void LbOptions::CheckHealth(NfOptions& options) const {
  if (!health.is_on()) {
    if (health.source_ipv4.has_value() || health.source_ipv6.has_value()) {
      options.Fail("checker", "given with check=tcp or http only");
    }
    return;
  }
  for (const LbServer& server : servers) {
    const auto& source = health.source(server.end.is_ipv6);
    if (!source.has_value()) {
      options.Fail("checker",
                   absl::StrCat("an address of IPv", server.end.is_ipv6 ? 6 : 4,
                                " for ", InWords(server.end)));
    } else if (IsServer(*source) || IsVirtual(*source)) {
      options.Fail("checker", "an address of no server and no virtual address");
    }
  }
}

void LbOptions::AskForward(NfOptions& options) {
  static constexpr std::array<std::string_view, 3> kForward = {"rewrite",
                                                               "ipip", "gue"};
  forward = static_cast<LbForward>(options.Choice(
      "forward", 0, kForward,
      "way to the servers: packets rewritten, and their answers too; or behind "
      "outer headers, IP in IP or GUE, while servers answer clients directly"));
  AskSources("outer",
             "source of outer headers, one address of each version of IP that "
             "servers have",
             options, outer_ipv4, outer_ipv6);
  gue_port = static_cast<uint16_t>(options.Integer(
      "gue_port", gue_port, 1, 65'535, "UDP port of the servers for GUE"));
  mtu = static_cast<uint32_t>(options.Integer(
      "mtu", mtu, 576, 65'535,
      "longest IP packet to a server with its outer headers; a longer one is "
      "answered by ICMP"));
}

void LbOptions::CheckForward(NfOptions& options) const {
  if (forward == LbForward::kRewrite) {
    if (outer_ipv4.has_value() || outer_ipv6.has_value()) {
      options.Fail("outer", "given with forward=ipip or gue only");
    }
    return;
  }
  for (const LbServer& server : servers) {
    if (!(server.end.is_ipv6 ? outer_ipv6 : outer_ipv4).has_value()) {
      options.Fail("outer",
                   absl::StrCat("an address of IPv", server.end.is_ipv6 ? 6 : 4,
                                " for ", InWords(server.end)));
    }
    const LbEnd& end = services[server.service].end;
    // Clients need not believe in less (RFC 8200 §5).
    constexpr uint32_t kLeastIpv6 = 1'280 + 48;
    if (end.is_ipv6 && mtu < kLeastIpv6) {
      options.Fail(
          "mtu", absl::StrCat("at least ", kLeastIpv6, " for ", InWords(end)));
    }
    if (server.end.port != end.port) {
      options.Fail("servers",
                   "servers with the port of the virtual address, which "
                   "outer headers do not change; " +
                       InWords(server.end) + " has " + InWords(end));
    }
  }
}

bool LbOptions::Serves(const LbServerName& server, const LbService& service,
                       const Asked& asked) const {
  const bool is_ipv6 = service.end.is_ipv6;
  if (server.end.is_ipv6 == is_ipv6) return true;
  return forward != LbForward::kRewrite &&
         std::ranges::none_of(NamesOf(service, asked),
                              [is_ipv6](const LbServerName& other) {
                                return other.end.is_ipv6 == is_ipv6;
                              });
}

void LbOptions::AddServices(NfOptions& options) {
  const std::vector<Endpoint> ends = options.Endpoints(
      "virtual", "the virtual addresses to which clients send");
  const size_t protocol = options.Choice("protocol", 0, kProtocols,
                                         "protocol of the virtual addresses");
  for (const Endpoint& end : ends) {
    AddService(end, protocol, {}, services);
  }
  const auto loaded = options.Load<Services>(
      "services",
      "file of services with servers of their own, one a line: \"tcp "
      "192.0.2.10:80 10.0.0.1:8080*2 10.0.0.2:8080\"; tcp, udp or both",
      LoadServices);
  if (loaded != nullptr) {
    services.insert(services.end(), loaded->begin(), loaded->end());
  }
  std::ranges::sort(services, {}, &LbService::end);
  for (const LbService& service : services) {
    virtual_.push_back(service.end.address);
  }
  std::ranges::sort(virtual_);
  const auto twice = std::ranges::adjacent_find(services, {}, &LbService::end);
  if (twice != services.end()) {
    options.Fail("virtual", "each address and port once; " +
                                InWords(twice->end) + " is there twice");
    services.clear();
  }
  if (services.empty()) {
    options.Fail("virtual", "at least one ADDRESS:PORT");
  }
  if (services.size() > kMaxServices) {
    options.Fail("virtual", absl::StrCat("at most ", kMaxServices / 2));
    services.clear();
  }
}

// A server answers for one service, since the packets that it sends name no
// other.
void LbOptions::AddServers(const std::vector<NfOptions::Dated<Asked>>& asked,
                           NfOptions& options) {
  for (size_t i = 0; i < services.size(); ++i) {
    const LbEnd& end = services[i].end;
    for (const auto& [from, value] : asked) {
      for (const LbServerName& server : NamesOf(services[i], value)) {
        if (!Serves(server, services[i], value)) continue;
        servers.push_back({.end = {server.end.address, server.end.port,
                                   end.protocol, server.end.is_ipv6},
                           .service = static_cast<uint16_t>(i),
                           .quic_id = server.quic_id});
      }
    }
  }
  std::ranges::sort(servers, {}, [](const LbServer& server) {
    return std::tuple(server.end, server.service, server.quic_id);
  });
  for (size_t i = 1; i < servers.size(); ++i) {
    if (servers[i].end != servers[i - 1].end) continue;
    const LbEnd& one = services[servers[i - 1].service].end;
    const LbEnd& other = services[servers[i].service].end;
    if (one != other) {
      options.Fail("servers",
                   "servers of one virtual address each, since their answers "
                   "must tell for which one they are; " +
                       InWords(servers[i].end) + " has " + InWords(one) +
                       " and " + InWords(other));
    }
    if (servers[i].quic_id != servers[i - 1].quic_id) {
      options.Fail("servers", "servers with one ID at all times; " +
                                  InWords(servers[i].end) + " has two");
    }
  }
  const auto same = std::ranges::unique(servers, {}, &LbServer::end);
  servers.erase(same.begin(), same.end());
  for (const LbServer& server : servers) {
    server_hosts_.push_back(server.end.address);
    if (IsVirtual(server.end.address)) {
      options.Fail("servers", "hosts other than the virtual addresses; not " +
                                  InWords(server.end));
    }
  }
  std::ranges::sort(server_hosts_);
  if (servers.size() > kMaxServers) {
    options.Fail("servers", absl::StrCat("at most ", kMaxServers,
                                         ", counted once for each protocol"));
    servers.clear();
  }
}

std::shared_ptr<const LbServers> LbOptions::ServersOf(
    const Asked& asked, NfOptions& options) const {
  auto made = std::make_shared<LbServers>();
  made->uses_.assign(servers.size(), LbServers::Use::kNone);
  std::vector<uint32_t> weights(servers.size());
  for (const std::vector<std::string>* const list :
       {&asked.drain, &asked.down}) {
    for (const std::string& name : *list) {
      const bool is_known = std::ranges::any_of(
          servers,
          [&](const LbServer& server) { return Names(name, server.end); });
      if (!is_known) {
        options.Fail(list == &asked.drain ? "drain" : "down",
                     absl::StrCat("servers, joined by +; \"", name,
                                  "\" is none of them"));
      }
    }
  }
  const auto is_in = [](const std::vector<std::string>& list,
                        const LbEnd& end) {
    return std::ranges::any_of(
        list, [&end](const std::string& name) { return Names(name, end); });
  };
  for (uint16_t service = 0; service < services.size(); ++service) {
    std::vector<bool> is_named(servers.size());
    std::vector<uint32_t> ids;
    for (const LbServerName& name : NamesOf(services[service], asked)) {
      if (!Serves(name, services[service], asked)) continue;
      const std::optional<uint16_t> server =
          ServerOf({name.end.address, name.end.port,
                    services[service].end.protocol, name.end.is_ipv6});
      if (!server.has_value()) continue;  // there were too many
      const LbEnd& end = servers[*server].end;
      if (is_named[*server]) {
        options.Fail("servers",
                     "each server once; " + InWords(end) + " is there twice");
      }
      is_named[*server] = true;
      if (name.quic_id.has_value()) {
        if (std::ranges::count(ids, *name.quic_id) > 0) {
          options.Fail("servers",
                       absl::StrCat("an ID for each server; ID ", *name.quic_id,
                                    " is there twice"));
        }
        ids.push_back(*name.quic_id);
      }
      const bool drains = name.weight == 0 || is_in(asked.drain, end);
      made->uses_[*server] = is_in(asked.down, end) ? LbServers::Use::kNone
                             : drains               ? LbServers::Use::kDraining
                                                    : LbServers::Use::kActive;
      weights[*server] = std::max(name.weight, 1u);
    }
  }
  for (uint16_t service = 0; service < services.size(); ++service) {
    const LbEnd& end = services[service].end;
    std::vector<MaglevTable::Member> members;
    bool has_any = false;
    const auto add = [&](LbServers::Use use) {
      for (uint16_t i = 0; i < servers.size(); ++i) {
        if (servers[i].service != service) continue;
        has_any |= weights[i] > 0;
        if (made->uses_[i] != use) continue;
        members.push_back({.offset_hash = HashOf(servers[i].end, 1),
                           .skip_hash = HashOf(servers[i].end, 2),
                           .weight = weights[i],
                           .value = i});
      }
    };
    add(LbServers::Use::kActive);
    made->draining_.push_back(members.empty() ? 1 : 0);
    if (members.empty()) add(LbServers::Use::kDraining);
    if (!has_any) {
      options.Fail("servers",
                   absl::StrCat("at least one of IPv", end.is_ipv6 ? 6 : 4,
                                " for ", InWords(end)));
    }
    if (members.size() >= table_size) {
      options.Fail("table", "more than the number of servers");
      members.clear();
    }
    made->tables_.emplace_back(std::move(members), table_size);
  }
  return made;
}

std::optional<uint16_t> LbOptions::ServiceOf(const LbEnd& end) const {
  const auto found =
      std::ranges::lower_bound(services, end, {}, &LbService::end);
  if (found == services.end() || found->end != end) return std::nullopt;
  return static_cast<uint16_t>(found - services.begin());
}

bool LbOptions::IsVirtual(const IpAddress& address) const {
  return std::ranges::binary_search(virtual_, address);
}

std::optional<uint16_t> LbOptions::ServerOf(const LbEnd& end) const {
  const auto found = std::ranges::lower_bound(servers, end, {}, &LbServer::end);
  if (found == servers.end() || found->end != end) return std::nullopt;
  return static_cast<uint16_t>(found - servers.begin());
}

bool LbOptions::IsServer(const IpAddress& address) const {
  return std::ranges::binary_search(server_hosts_, address);
}

std::optional<uint16_t> LbOptions::ServerOf(uint16_t service,
                                            uint32_t quic_id) const {
  for (size_t i = 0; i < servers.size(); ++i) {
    if (servers[i].service == service && servers[i].quic_id == quic_id) {
      return static_cast<uint16_t>(i);
    }
  }
  return std::nullopt;
}

const LbServers& LbOptions::AsOf(Instant time) const {
  size_t i = dated.size() - 1;
  while (i > 0 && dated[i].from > time) --i;
  return *dated[i].value;
}

std::optional<Instant> LbOptions::UseSince(uint16_t server,
                                           Instant time) const {
  const LbServers::Use use = AsOf(time).use(server);
  std::optional<Instant> since;
  for (const auto& one : dated) {
    if (one.from > time) break;
    if (one.value->use(server) != use) {
      since.reset();
    } else if (!since.has_value()) {
      since = one.from;
    }
  }
  if (since == dated.front().from) since.reset();
  return since;
}

}  // namespace snf
