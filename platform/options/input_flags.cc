// SPDX-License-Identifier: Apache-2.0
#include "platform/options/input_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "base/packet/ip_prefix.h"
#include "base/quantity.h"
#include "base/text/stderr_line.h"
#include "base/text/wording.h"
#include "platform/modules/module_process.h"
#include "platform/modules/module_stand_ins.h"
#include "platform/modules/nf_warnings.h"
#include "platform/process/source_tree.h"
#include "platform/run/chaos_flag.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_module.h"
#include "traces/merged_reader.h"

namespace snf {
namespace {

// Tells what the NFs of a chain have to say of their options.
bool HasBothSides(const std::vector<PortSpec>& ports) {
  return std::ranges::any_of(
      ports, [](const PortSpec& port) { return port.side == Side::kUnknown; });
}

}  // namespace

InputFlags::InputFlags(RunFlagSet& set) : set_(set) {
  FlagSet& flags = set_.flags;
  RunOptions& run = set_.request.run;
  if (set_.has_captures) flags.Arguments("FILE", set_.request.files, 0);
  flags.Heading("What to run, what to write");
  if (!set_.has_captures) {
    AddPorts();
    AddController();
  }
  AddChains();
  AddUnreadable();
  if (set_.has_captures) {
    AddInside();
    AddChanges();
    flags.Switch("check", run.check,
                 "hold the run to the protocol's invariants (slower "
                 "than --no_check; the result is the same)");
  }
  flags.Number("seed", run.controller.seed,
               "seed of random choices: of replicas, of chaos and of hashes. "
               "With --clock=real, hashes have a secret one unless it is "
               "given");
}

void InputFlags::AddPorts() {
  std::vector<PortSpec>& ports = set_.request.ports;
  set_.flags.Repeated(
      "port", "SIDE=[KIND:]INTERFACE[,KEY=VALUE…]",
      "where packets come in and leave: an inside and an outside, as in "
      "--port inside=lan0 --port outside=wan0, or several of each. Of several, "
      "a packet leaves by the one where its receiver was seen. With xdp:, by "
      "AF_XDP, for network cards. With tap:, a TAP interface, which is made if "
      "it does not exist. With file:, a capture, whose frames come in as they "
      "were captured; packets that leave there are discarded. With "
      ",address=IP/LENGTH (several, of IPv4 and IPv6) at all ports, "
      "without a KIND, SNF is the router of its hosts: it answers "
      "for its addresses, decrements TTLs and finds next hops; with "
      ",gateway=IP (all other networks), ,route=PREFIX@IP, ,routes=main "
      "(routes of the kernel), ,routes=rules (also its rules), ,proxy=PREFIX "
      "(addresses of a NAT, for which it answers), ,mac=MAC and ,ra=on (router "
      "advertisements, with ,dns=IP). Without a KIND, ,send=thread has a "
      "thread of the "
      "port's own send, and ,queues=N has N sockets receive. Alone, "
      "both=gwlb:INTERFACE[,health=PORT]: packets in GENEVE from AWS's Gateway "
      "Load Balancer, which go back to it; at the TCP port its health checks "
      "are answered",
      [&ports](const std::string& text) {
        const absl::StatusOr<PortSpec> port = ParsePort(text);
        if (port.ok()) ports.push_back(*port);
        return port.status();
      },
      [&ports] {
        std::string text;
        for (const PortSpec& port : ports) {
          text += (text.empty() ? "" : ",") + port.text();
        }
        return text;
      });
  set_.flags.Switch(
      "gso", set_.request.gso,
      "a frame of several packets (GSO), as TCP in containers and virtual "
      "machines sends them, stays whole if all NFs of the chain take it, and "
      "then counts as one packet; else it is cut into its packets. With --out "
      "all are cut");
}

void InputFlags::AddController() {
  ControllerOf& controller = set_.request.controller;
  set_.flags.Custom(
      "controller", "I/N",
      "be controller I, counted from 0, of N at the same ports, each a process "
      "of its own with the same --nf. It takes only the packets of its hosts "
      "inside, and those to its part of an NF's external ports",
      [&controller](const std::string& text) {
        const auto parsed = ControllerOf::Parse(text);
        if (parsed.ok()) controller = *parsed;
        return parsed.status();
      },
      [&controller] { return controller.text(); });
}

void InputFlags::AddChains() {
  std::vector<FlagSet::Meaning> nfs;
  for (const NfRegistration* nf : ListNfs()) {
    nfs.push_back(
        {.choice = std::string(nf->name), .what = std::string(nf->summary)});
  }
  set_.flags
      .Text("nf", set_.request.nf, "NAME[:KEY=VALUE,…]",
            "network function to run on the units, and its options, which snf "
            "nf show NAME explains; or a chain of such, as in 'policer | nat', "
            "or the file of a module, as in ./my_nf.so:",
            nfs)
      .is_of_command = true;
  set_.flags
      .Text(
          "config", set_.request.config_file, "FILE",
          set_.has_captures
              ? "chains of NFs, and which packets take which, instead of "
                "--nf: protobuf's text format or JSON (proto/config.proto)"
              : "how it is to run: a chain of NFs instead of --nf, ports, and "
                "settings, each of which a flag on the command line overrides: "
                "protobuf's text format or JSON (proto/config.proto)")
      .is_of_command = true;
}

void InputFlags::AddUnreadable() {
  set_.flags.Choice(
      "unreadable", set_.request.run.unreadable,
      {{"auto", "drop if an NF filters or translates, else pass"},
       {"pass",
        "frames without an IP packet leave as they came; all others go "
        "to the NFs"},
       {"drop", "it is dropped, and counted by what could not be read"}},
      "what becomes of a packet that hides something from the NFs, such as IP "
      "behind an unknown type, or ports in a later fragment:");
}

void InputFlags::AddInside() {
  auto& inside = set_.request.run.inside;
  set_.flags.Custom(
      "inside", "PREFIX[,PREFIX…]",
      "addresses that an NF with two sides, as nat, has on its inside, as in "
      "10.0.0.0/8,2001:db8::/32. Without it, the first sender of a flow is "
      "inside",
      [&inside](const std::string& text) {
        const auto parsed = ParsePrefixes(text);
        if (parsed.ok()) inside = *parsed;
        return parsed.status();
      },
      [&inside] { return FormatPrefixes(inside); });
}

void InputFlags::AddChanges() {
  set_.flags.Repeated(
      "at", "TIME: NF.KEY=VALUE",
      "set an option of an NF for packets that come TIME after the first one "
      "or later, if the option may change while packets go through, as in "
      "--at '10s: lb.drain=10.0.0.3'",
      [this](const std::string& text) {
        const absl::StatusOr<Change> change = ParseChange(text);
        if (change.ok()) changes_.push_back(*change);
        return change.status();
      },
      [this] {
        std::string text;
        for (const Change& change : changes_) {
          text += fmt::format("{}{}: {}.{}={}", text.empty() ? "" : ",",
                              FormatPlainDuration(change.after), change.nf,
                              change.key, change.value);
        }
        return text;
      });
}

absl::StatusOr<InputFlags::Change> InputFlags::ParseChange(
    const std::string& text) {
  const size_t colon = text.find(':');
  const size_t dot = text.find('.', colon == std::string::npos ? 0 : colon);
  const size_t equals = text.find('=', dot == std::string::npos ? 0 : dot);
  const auto wrong = absl::InvalidArgumentError(fmt::format(
      "\"{}\": want TIME: NF.KEY=VALUE, such as 10s: lb.drain=10.0.0.3",
      Printable(text)));
  if (colon == std::string::npos || dot == std::string::npos ||
      equals == std::string::npos) {
    return wrong;
  }
  const size_t name = text.find_first_not_of(' ', colon + 1);
  const auto after = ParseDuration(text.substr(0, colon));
  if (!after.ok() || after->ns < 0 || name >= dot || dot + 1 >= equals) {
    return wrong;
  }
  return Change{.after = *after,
                .nf = text.substr(name, dot - name),
                .key = text.substr(dot + 1, equals - dot - 1),
                .value = text.substr(equals + 1)};
}

// Options change at times since the epoch, so the first packet is looked at.
absl::Status InputFlags::ChangeOptions(NfSpec& nf) const {
  const std::vector<std::string>& files = set_.request.files;
  if (std::ranges::find(files, "-") != files.end()) {
    return absl::InvalidArgumentError(
        "--at: captures from stdin are read only once");
  }
  auto reader = MergedReader::Open(files);
  if (!reader.ok()) return reader.status();
  CapturedPacket first;
  if ((*reader)->Next(first) != ReadResult::kPacket) return absl::OkStatus();
  for (const Change& change : changes_) {
    const Nanos since_epoch = first.time + change.after - Instant{};
    const std::string key = fmt::format("{}@{}ns", change.key, since_epoch.ns);
    absl::Status status = nf.SetOption(change.nf, key, change.value);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("--at: {}", std::string(status.message())));
    }
  }
  absl::Status status = nf.check();
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      fmt::format("--at: {}", std::string(status.message())));
}

absl::Status InputFlags::Check() const {
  if (!set_.has_captures) {
    if (absl::Status s = CheckPorts(set_.request.ports); !s.ok()) return s;
  }
  return set_.Check({{.flags = {"nf"},
                      .with = "config",
                      .when = set_.given("config"),
                      .because = "each of them says what to run"},
                     {.flags = {"at"},
                      .with = "config",
                      .when = set_.given("config"),
                      .because = "it changes options of --nf"},
                     {.flags = {"at"},
                      .with = "clock",
                      .when = set_.request.is_real_time,
                      .because = "options change by the capture's time"}});
}

void InputFlags::SettleCapture() {
  if (!set_.has_captures || !set_.request.files.empty()) return;
  is_bundled_ = true;
  std::error_code error;
  const std::filesystem::path near =
      std::filesystem::proximate(kBundledCapture, error);
  set_.request.files = {error ? kBundledCapture : near.string()};
  if (set_.given("unit_capacity")) return;
  set_.request.run.controller.unit_capacity_bps = kBundledCaptureUnitBps;
  bundled_flag_ = "unit_capacity";
}

std::string InputFlags::bundled_command() const {
  if (!is_bundled_) return "";
  const std::string flag =
      bundled_flag_.empty() ? "" : " " + set_.flags.Printed(bundled_flag_);
  return fmt::format("./snf replay {}{}", set_.request.files.front(), flag);
}

absl::Status InputFlags::ReadChains() {
  RunRequest& request = set_.request;
  if (!request.config_file.empty()) {
    if (request.config_text.empty()) {
      auto text = ReadConfigFile(request.config_file);
      if (!text.ok()) return text.status();
      request.config_text = *std::move(text);
    }
    auto parsed =
        ParseConfig(request.config_text, request.config_file, replaced_);
    if (!parsed.ok()) return parsed.status();
    request.config = *std::move(parsed);
    if (set_.has_captures && request.config.has_settings) {
      PrintOnStderr("{}: its ports and settings are of live traffic\n",
                    request.config_file);
    }
    TellNotes();
    return SettleLiveChain();
  }
  for (const auto& [name, text] : replaced_) {
    if (!name.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("there is no chain \"{}\": without --config, the only "
                      "chain has no name",
                      Printable(name)));
    }
    request.nf = text;
  }
  absl::StatusOr<NfSpec> nf = NfSpec::Parse(request.nf);
  const absl::Status status = nf.ok() ? nf->check() : nf.status();
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}", replaced_.empty() ? "--nf" : "chain",
                    std::string(status.message())));
  }
  if (!changes_.empty()) {
    if (absl::Status s = ChangeOptions(*nf); !s.ok()) return s;
  }
  request.config.chains.push_back({.name = request.nf, .nf = *std::move(nf)});
  request.config.default_chain = 0;
  TellNotes();
  return absl::OkStatus();
}

void InputFlags::TellNotes() const {
  if (!tells_notes_) return;
  const Config& config = set_.request.config;
  for (const Config::Chain& chain : config.chains) {
    for (const std::string& warning : WarningsOf(chain.nf)) {
      PrintOnStderr("snf: warning: {}\n", warning);
    }
  }
  for (const std::string& line : config.notes) {
    PrintOnStderr("{}\n", line);
  }
}

absl::Status InputFlags::SettleLiveChain() {
  if (set_.has_captures) return absl::OkStatus();
  RunRequest& request = set_.request;
  if (!request.has_one_chain()) return SettleLiveChains();
  const Config::Chain& chain = request.config.chains.front();
  if (chain.unit_capacity_bps.has_value()) request.real.unpaced = false;
  request.nf = chain.nf.text();
  return set_.Check({{.flags = {"max_units"},
                      .with = "config",
                      .when = chain.max_units.has_value(),
                      .because = "each of them says how many"}});
}

// Ports of an address that two chains give would not tell whose an answer is.
absl::Status InputFlags::CheckPools() const {
  std::map<std::string, std::string> chains;  // by address
  for (const Config::Chain& chain : set_.request.config.chains) {
    const auto nf = chain.nf.create();
    for (const NetworkFunction::Pool& pool : nf->pools()) {
      if (!pool.address.has_value()) continue;
      const std::string address = FormatPrefixes(
          std::array{IpPrefix::Of(IpAddress::FromIpv4(*pool.address), 128)});
      const auto [other, is_new] = chains.emplace(address, chain.name);
      if (is_new || other->second == chain.name) continue;
      return absl::InvalidArgumentError(fmt::format(
          "{}: chains \"{}\" and \"{}\" give ports of {}: an answer would not "
          "tell whose it is",
          set_.request.config_file, other->second, chain.name, address));
    }
  }
  return absl::OkStatus();
}

absl::Status InputFlags::SettleLiveChains() {
  RunRequest& request = set_.request;
  std::string names;
  for (const Config::Chain& chain : request.config.chains) {
    names += (names.empty() ? "" : ", ") + chain.name;
  }
  request.nf = "chains " + names;
  if (absl::Status s = CheckPools(); !s.ok()) return s;
  return set_.Check({{.flags = {"controller"},
                      .with = "config",
                      .when = request.controller.count > 1,
                      .because = "several chains have one controller each"}});
}

absl::Status InputFlags::SettleChains() {
  const bool confines = !set_.has_captures && !set_.request.trust_modules &&
                        set_.request.real.isolation == Isolation::kContainer;
  if (confines) {
    ConfineModules([](const proto::ModuleQuestion& question) {
      return AskModuleProcess(question);
    });
  }
  for (const std::string& module : modules_) {
    const auto loaded = ReplaceByNfModule(module);
    if (!loaded.ok()) return loaded.status();
  }
  if (absl::Status s = ReadChains(); !s.ok()) return s;
  bool has_barrier = false;
  for (const Config::Chain& chain : set_.request.config.chains) {
    const auto nf = chain.nf.create();
    const FlowScope scope = nf->flow_scope();
    has_sides_ |= scope == FlowScope::kInsideEndpoint;
    has_own_keys_ |= scope == FlowScope::kOwnKey;
    has_barrier |= nf->is_barrier();
  }
  // Rules do not see unread parts: the packet could be for any of the chains.
  Unreadable& unreadable = set_.request.run.unreadable;
  if (!set_.request.has_one_chain() && unreadable == Unreadable::kAuto) {
    unreadable = has_barrier ? Unreadable::kDrop : Unreadable::kPass;
  }
  if (absl::Status s = CheckChains(); !s.ok()) return s;
  RunRequest& request = set_.request;
  if (request.has_one_chain()) {
    request.run = OptionsOf(request.config.chains.front(), request.run);
  }
  return absl::OkStatus();
}

absl::Status InputFlags::CheckChains() const {
  const RunRequest& request = set_.request;
  const char* const flag = request.config_file.empty() ? "nf" : "config";
  if (has_sides_ && request.run.flow.kind != FlowKeyKind::kConnection) {
    return set_.AtOdds("flow_key", flag,
                       "flows are inside ends of connections");
  }
  if (has_sides_ && !set_.has_captures && HasBothSides(request.ports)) {
    return absl::InvalidArgumentError(fmt::format(
        "--port {} with {}: its packets have neither inside nor outside, and "
        "go back with the addresses that they came with",
        request.ports.front().text(), set_.flags.Printed(flag)));
  }
  if (has_own_keys_ && request.run.flow.kind != FlowKeyKind::kConnection) {
    return set_.AtOdds("flow_key", flag, "the NF says what a flow is");
  }
  return set_.Check({{.flags = {"inside"},
                      .with = flag,
                      .when = !has_sides_,
                      .because = "no NF tells inside from outside"},
                     {.flags = {"explain", "compare", "decisions", "usage",
                                "warm_up", "faults", "recovery"},
                      .with = "config",
                      .when = !request.has_one_chain(),
                      .because = "only a single chain has that"}});
}

absl::Status InputFlags::SettleController() {
  RunRequest& request = set_.request;
  const ControllerOf& controller = request.controller;
  if (controller.count == 1) return absl::OkStatus();
  if (request.run.state == StateMode::kExternal) {
    return set_.AtOdds("controller", "state",
                       "a store has a single controller");
  }
  const std::string flag = set_.flags.Printed("controller");
  for (const PortSpec& port : request.ports) {
    if (request.has_own_ports && port.kind != PortSpec::Kind::kGwlb) continue;
    if (port.kind == PortSpec::Kind::kPacket ||
        port.kind == PortSpec::Kind::kCapture) {
      continue;
    }
    return absl::InvalidArgumentError(fmt::format(
        "{} with --port {}: only packet sockets, and captures, can be shared",
        flag, port.text()));
  }
  const auto example = request.config.chains.front().nf.create();
  auto steering = Steering::Of(*example, controller);
  if (!steering.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}", flag, std::string(steering.status().message())));
  }
  request.steering = *steering;
  if (!request.has_own_ports) {
    for (PortSpec& port : request.ports) port.steering = *steering;
  }
  request.run.controller.controller_id = static_cast<uint8_t>(controller.id);
  request.real.controllers = controller.count;
  return absl::OkStatus();
}

}  // namespace snf
