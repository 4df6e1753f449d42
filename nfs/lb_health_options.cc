// SPDX-License-Identifier: Apache-2.0
#include "nfs/lb_health_options.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"

namespace snf {

std::string InWords(const LbEnd& end) {
  return NfOptions::ToText({end.address, end.port, end.is_ipv6});
}

void LbHealthOptions::AskCheck(std::string_view help, NfOptions& options) {
  static constexpr std::array<std::string_view, 3> kChecks = {"none", "tcp",
                                                              "http"};
  check = static_cast<LbHealthCheck>(options.Choice("check", 0, kChecks, help));
}

void LbHealthOptions::AskRounds(NfOptions& options) {
  interval = options.Duration(
      "check_interval", interval, Milliseconds(10), Seconds(3'600),
      "time between two checks of a server, and the least for its answer");
  const auto count = [&options](const char* key, uint32_t& value,
                                const char* help) {
    value = static_cast<uint32_t>(options.Integer(key, value, 1, 10, help));
  };
  count("rise", rise, "checks in a row that must pass to bring a server up");
  count("fall", fall, "checks in a row that must fail to take a server down");
}

void LbHealthOptions::AskPort(uint16_t otherwise, uint16_t least,
                              std::string_view help, NfOptions& options) {
  port = static_cast<uint16_t>(
      options.Integer("check_port", otherwise, least, 65'535, help));
}

void LbHealthOptions::AskPath(NfOptions& options) {
  path =
      options.Text("check_path", "/", "PATH", "path that check=http asks for");
  constexpr size_t kMaxPath = 200;
  const bool is_path =
      path.starts_with('/') && path.size() <= kMaxPath &&
      std::ranges::all_of(path, [](char c) { return c > ' ' && c < 127; });
  if (is_path) return;
  options.Fail("check_path",
               absl::StrCat("a path that begins with / and has at most ",
                            kMaxPath, " characters, without blanks"));
  path = "/";
}

}  // namespace snf
