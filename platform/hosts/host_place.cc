// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/host_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/text/wording.h"
#include "platform/service/socket_address.h"

namespace snf {
namespace {

constexpr uint32_t kMostProcesses = 32;

absl::Status Bad(const std::string& text, const std::string& why) {
  return absl::InvalidArgumentError(
      fmt::format("\"{}\": {}", Printable(text), why));
}

bool IsName(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  });
}

// Sets what units=COUNT or wire=WIRE says.
absl::Status SetPart(const std::string& part, HostPlace& host) {
  constexpr std::string_view kUnits = "units=";
  if (part == "wire=tcp" || part == "wire=geneve") {
    host.wire = part == "wire=tcp" ? HostWire::kTcp : HostWire::kGeneve;
    return absl::OkStatus();
  }
  if (part.starts_with("wire=")) return Bad(part, "is not wire=tcp or geneve");
  const char* const end = part.data() + part.size();
  const auto [stop, error] =
      part.starts_with(kUnits)
          ? std::from_chars(part.data() + kUnits.size(), end, host.processes)
          : std::from_chars_result{part.data(), std::errc::invalid_argument};
  if (error == std::errc() && stop == end && host.processes > 0 &&
      host.processes <= kMostProcesses) {
    return absl::OkStatus();
  }
  return Bad(part,
             fmt::format("is not units=COUNT, from 1 to {}", kMostProcesses));
}

}  // namespace

absl::Status HostPlace::CheckName(const std::string& name) {
  if (IsName(name) && name.size() < HostPlace().name.size()) {
    return absl::OkStatus();
  }
  return Bad(name, "is no name of a host");
}

absl::Status HostPlace::CheckAddress(const std::string& address) {
  const auto parsed = ParseReachable(address, "192.0.2.1:7000");
  if (!parsed.ok()) return parsed.status();
  if (address.size() < HostPlace().address.size()) return absl::OkStatus();
  return Bad(address, "is too long");
}

absl::StatusOr<HostPlace> HostPlace::Of(const std::string& name,
                                        const std::string& address,
                                        uint32_t processes) {
  HostPlace host = {.processes = processes};
  if (absl::Status s = CheckName(name); !s.ok()) return s;
  if (absl::Status s = CheckAddress(address); !s.ok()) return s;
  name.copy(host.name.data(), host.name.size() - 1);
  address.copy(host.address.data(), host.address.size() - 1);
  return host;
}

std::vector<HostPlace> HostShare::Hosts() const {
  std::vector<HostPlace> hosts = source_.Hosts();
  for (HostPlace& host : hosts) {
    // All take turns at the rest of a host's units.
    uint32_t first = 0;
    for (const char c : host.name) first += static_cast<unsigned char>(c);
    const uint32_t rest = host.processes % parts_;
    const uint32_t place = (part_ + first) % parts_;
    host.processes = host.processes / parts_ + (place < rest ? 1 : 0);
  }
  std::erase_if(hosts,
                [](const HostPlace& host) { return host.processes == 0; });
  return hosts;
}

absl::Status HostPlaces::Add(const std::string& text) {
  const size_t equals = text.find('=');
  const size_t comma = std::min(text.find(','), text.size());
  if (equals == std::string::npos || equals > comma) {
    return Bad(text, "is not NAME=ADDRESS:PORT[,units=COUNT]");
  }
  const std::string name = text.substr(0, equals);
  const std::string address = text.substr(equals + 1, comma - equals - 1);
  absl::StatusOr<HostPlace> host = HostPlace::Of(name, address, 1);
  if (!host.ok()) return host.status();
  for (size_t at = comma; at < text.size();) {
    const size_t end = std::min(text.find(',', at + 1), text.size());
    const absl::Status s = SetPart(text.substr(at + 1, end - at - 1), *host);
    if (!s.ok()) return s;
    at = end;
  }
  for (const HostPlace& other : std::span(hosts_).first(count_)) {
    if (other.name == host->name) {
      return Bad(name, "names two hosts");
    }
  }
  if (count_ == HostPlace::kMost) {
    return Bad(name, fmt::format("are more than {} hosts", HostPlace::kMost));
  }
  hosts_[count_++] = *host;
  return absl::OkStatus();
}

absl::Status HostPlaces::SetTls(const std::string& directory) {
  if (directory.size() >= tls_.size()) return Bad(directory, "is too long");
  tls_ = {};
  directory.copy(tls_.data(), tls_.size() - 1);
  return absl::OkStatus();
}

std::string HostPlaces::text() const {
  std::string text;
  for (const HostPlace& host : std::span(hosts_).first(count_)) {
    text += fmt::format("{}{}={},units={}{}", text.empty() ? "" : " ",
                        host.name.data(), host.address.data(), host.processes,
                        host.wire == HostWire::kGeneve ? ",wire=geneve" : "");
  }
  return text;
}

bool HostPlaces::has_geneve() const {
  return std::ranges::any_of(hosts(), [](const HostPlace& host) {
    return host.wire == HostWire::kGeneve;
  });
}

uint32_t HostPlaces::processes() const {
  uint32_t sum = 0;
  for (const HostPlace& host : hosts_) sum += host.processes;
  return sum;
}

absl::Status HostPlaces::Check(uint32_t processes) const {
  if (this->processes() < processes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} units on other hosts leave none of {} on this one",
                  this->processes(), Plural(processes, "unit")));
}

const HostPlace* HostPlaces::Of(uint32_t process, uint32_t processes) const {
  uint32_t first = processes - this->processes();
  if (process < first) return nullptr;
  for (const HostPlace& host : std::span(hosts_).first(count_)) {
    first += host.processes;
    if (process < first) return &host;
  }
  return nullptr;
}

}  // namespace snf
