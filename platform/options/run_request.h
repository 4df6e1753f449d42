// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OPTIONS_RUN_REQUEST_H_
#define SNF_PLATFORM_OPTIONS_RUN_REQUEST_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/rules/chain_rules.h"
#include "base/time.h"
#include "platform/drivers/cluster/cluster_options.h"
#include "platform/drivers/real_time/real_options.h"
#include "platform/options/config.h"
#include "platform/options/explain_request.h"
#include "platform/ports/port_spec.h"
#include "platform/ports/steering.h"
#include "platform/process/metrics_server.h"
#include "platform/report/report.h"
#include "platform/run/run.h"

namespace snf {

// What a command line asks `snf replay`, or `snf run`, to do. RunFlags makes
// it, checked; ReplayRun, RunCommand and RunOutput go by it. Plain data.
struct RunRequest {
  // The following say what is run.
  std::vector<std::string> files;  // captures, merged by time
  std::vector<PortSpec> ports;     // of live traffic, without files
  // Frames of several packets stay whole if the NF takes them.
  bool gso = true;
  ControllerOf controller;  // of those at the ports
  // Divides packets among several controllers; null: there is one.
  std::shared_ptr<const Steering> steering;
  // The controllers have ports of their own, on several machines. Each port
  // takes all frames.
  bool has_own_ports = false;
  std::string nf = "passthrough";  // of --nf, with its options
  std::string config_file;         // of --config; empty: --nf holds
  std::string config_text;         // of that file, as it was read
  Config config;                   // the chains that one of the two names
  // The policy of the run, and those that it is compared with.
  std::vector<std::string> policies;
  ExplainRequest explain;

  // The following say how it is run. With a single chain, the sizes are those
  // of the chain.
  RunOptions run;
  // With several controllers, in virtual time, they lease the units.
  ClusterOptions cluster = {.controllers = 1};
  Nanos warm_up;          // left out of latency and of figures of units
  bool recovery = false;  // tell what other ways of recovery would take
  bool is_real_time = false;
  RealOptions real;
  bool trust_modules = false;  // live: not confined to containers
  bool preload = false;
  uint32_t loop = 1;  // so often, as one long capture

  // The following say where output goes. An empty name is none, and "-" is
  // stdout.
  std::string out;  // released packets
  bool annotate = false;
  std::string drops;  // dropped packets
  std::string json;
  bool json_schema = false;  // nothing is run; what JSON says is told of
  std::string csv;           // a directory
  std::string decisions;     // a log of placements
  std::string usage;         // what the chain used, by epochs
  std::string nf_logs;       // a directory for the logs of NFs
  std::string ipfix;         // a file or collector of the same
  bool watch = false;
  MetricsServer::Options metrics{};  // port 0: none
  std::string metrics_tls;           // a directory for ReadTlsFiles
  bool quiet = false;

  // The command line, without what a file says.
  std::vector<std::string> arguments;
  // All flags of the command, for the report.
  std::vector<RunInfo::Flag> flags;
  // The flags of the run that the command line gave, by name, with which it can
  // be started again; without outputs, flags that may be repeated, and
  // --config.
  std::map<std::string, std::string> given;
  // The flags whose values may change while the run goes on, by name.
  std::map<std::string, std::string> changeable;

  // Returns true if the only chain takes all packets.
  bool has_one_chain() const {
    return config.chains.size() == 1 && config.default_chain.has_value() &&
           config.rules.empty();
  }
  // Returns what chooses among several chains. Error: as of ChainRules::Make.
  absl::StatusOr<std::unique_ptr<ChainRules>> MakeRules() const {
    return ChainRules::Make(config.rules, config.rule_chains,
                            config.default_chain, run.flow.fragments);
  }
};

// Returns the request for one of its chains alone, which takes all packets.
inline RunRequest Alone(const RunRequest& request, size_t chain) {
  const Config::Chain& one = request.config.chains[chain];
  RunRequest alone = request;
  alone.config = Config();
  alone.config.chains = {one};
  alone.config.default_chain = 0;
  alone.nf = one.nf.text();
  alone.run = OptionsOf(one, request.run);
  if (one.unit_capacity_bps.has_value()) alone.real.unpaced = false;
  return alone;
}

}  // namespace snf

#endif  // SNF_PLATFORM_OPTIONS_RUN_REQUEST_H_
