// SPDX-License-Identifier: Apache-2.0
#include "platform/service/tls_endpoint.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "base/text/wording.h"

namespace snf {

std::string TcpAddress::text() const {
  const bool is_ipv6 = host.find(':') != host.npos;
  return is_ipv6 ? fmt::format("[{}]:{}", host, port)
                 : fmt::format("{}:{}", host, port);
}

absl::StatusOr<TcpAddress> ParseTcpAddress(const std::string& text) {
  const absl::Status bad = absl::InvalidArgumentError(
      fmt::format("\"{}\" is not an address: want tcp:HOST:PORT, as in "
                  "tcp:127.0.0.1:7001 or tcp:[::1]:7001",
                  Printable(text)));
  constexpr std::string_view kScheme = "tcp:";
  const size_t colon = text.rfind(':');
  if (!text.starts_with(kScheme) || colon < kScheme.size()) return bad;
  TcpAddress address;
  address.host = text.substr(kScheme.size(), colon - kScheme.size());
  const bool has_brackets =
      address.host.starts_with('[') && address.host.ends_with(']');
  if (has_brackets) address.host = address.host.substr(1, colon - 6);
  const bool is_ipv6 = address.host.find(':') != address.host.npos;
  const char* const end = text.data() + text.size();
  const auto parsed =
      std::from_chars(text.data() + colon + 1, end, address.port);
  if (address.host.empty() || is_ipv6 != has_brackets ||
      address.host.find_first_of("[]/ ") != address.host.npos ||
      parsed.ec != std::errc() || parsed.ptr != end || address.port == 0) {
    return bad;
  }
  return address;
}

void TlsFlags::AddTo(FlagSet& flags, const std::string& help) {
  flags.Text("control", control_, "tcp:HOST:PORT", help);
  flags.Text("tls", directory_, "DIRECTORY",
             "directory with the certificates of both ends, made by snf cert");
}

absl::StatusOr<std::optional<TlsEndpoint>> TlsFlags::Endpoint(
    TlsEnd end) const {
  if (control_.empty() && directory_.empty()) return std::nullopt;
  if (directory_.empty()) {
    return absl::InvalidArgumentError(
        "--control: over TCP both ends need certificates: add --tls=DIRECTORY, "
        "made by snf cert");
  }
  if (control_.empty()) {
    return absl::InvalidArgumentError("--tls needs --control=tcp:HOST:PORT");
  }
  absl::StatusOr<TcpAddress> address = ParseTcpAddress(control_);
  if (!address.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("--control: {}", std::string(address.status().message())));
  }
  absl::StatusOr<TlsFiles> files = ReadTlsFiles(directory_, end);
  if (!files.ok()) return files.status();
  return TlsEndpoint{.address = *std::move(address),
                     .files = *std::move(files)};
}

}  // namespace snf
