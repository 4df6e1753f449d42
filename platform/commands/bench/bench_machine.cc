// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/bench/bench_machine.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>

#include <cstdlib>
#include <fstream>
#include <string_view>

namespace snf {
namespace {

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

void ReadCpuInfo(MachineFacts& facts) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const size_t colon = line.find(": ");
    if (colon == line.npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("model name")) facts.cpu = value;
    if (line.starts_with("cpu MHz")) {
      facts.clock_hz =
          static_cast<int64_t>(std::strtod(value.c_str(), nullptr) * 1e6);
    }
    if (line.starts_with("flags") &&
        (value + " ").find(" hypervisor ") != value.npos) {
      facts.hypervisor = "yes";
    }
  }
}

}  // namespace

MachineFacts ReadMachineFacts() {
  const std::string cpu0 = "/sys/devices/system/cpu/cpu0/";
  MachineFacts facts;
  ReadCpuInfo(facts);
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    facts.cpus = static_cast<uint32_t>(CPU_COUNT(&set));
  }
  for (int i = 0;; ++i) {
    const std::string cache = fmt::format("{}cache/index{}/", cpu0, i);
    const std::string size = FirstLine(cache + "size");
    if (size.empty()) break;
    const std::string type = FirstLine(cache + "type");
    const char* const suffix = type == "Data"          ? "d"
                               : type == "Instruction" ? "i"
                                                       : "";
    facts.caches.push_back(
        {fmt::format("L{}{}", FirstLine(cache + "level"), suffix), size});
  }
  utsname name{};
  if (uname(&name) == 0) {
    facts.kernel =
        fmt::format("{} {} {}", name.sysname, name.release, name.machine);
  }
  facts.governor = FirstLine(cpu0 + "cpufreq/scaling_governor");
  return facts;
}

double LoadAverage() {
  double load = -1;
  return getloadavg(&load, 1) == 1 ? load : -1;
}

}  // namespace snf
