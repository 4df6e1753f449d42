// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/live/member_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

namespace snf {
namespace {

absl::Status Broken(const std::string& file, const std::string& what) {
  return absl::DataLossError(
      fmt::format("{}: {} is no line of a resource manager's", file, what));
}

bool ReadMember(std::istream& words, MemberFile::Member& member) {
  uint32_t controller = 0;
  if (!(words >> controller >> member.process.pid >>
        member.process.start_time >> member.name)) {
    return false;
  }
  words >> member.machine;
  member.controller = ControllerId{static_cast<uint8_t>(controller)};
  return controller < 256;
}

bool ReadSite(std::istream& words, MemberFile::Site& site) {
  return static_cast<bool>(words >> site.unit >> site.of.host >>
                           site.of.address);
}

}  // namespace

absl::StatusOr<std::optional<MemberFile>> MemberFile::Read(
    const std::string& file) {
  std::ifstream stream(file);
  if (!stream) {
    if (errno == ENOENT) return std::nullopt;
    const std::string text = fmt::format("{}: {}", file, std::strerror(errno));
    if (errno == EACCES) return absl::PermissionDeniedError(text);
    return absl::UnavailableError(text);
  }
  std::ostringstream text;
  text << stream.rdbuf();
  return Parse(text.str(), file);
}

absl::StatusOr<MemberFile> MemberFile::Parse(const std::string& text,
                                             const std::string& source) {
  std::istringstream stream(text);
  MemberFile read;
  std::string line;
  while (std::getline(stream, line)) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    bool is_right = false;
    if (key == "epoch") {
      is_right = static_cast<bool>(words >> read.epoch);
    } else if (key == "units") {
      is_right = static_cast<bool>(words >> read.units);
    } else if (key == "unit_capacity_bps") {
      is_right = static_cast<bool>(words >> read.unit_capacity_bps);
    } else if (key == "member") {
      is_right = ReadMember(words, read.members.emplace_back());
    } else if (key == "follows_hosts") {
      is_right = read.follows_hosts = true;
    } else if (key == "site") {
      is_right = ReadSite(words, read.sites.emplace_back());
    }
    if (!is_right) return Broken(source, fmt::format("\"{}\"", line));
  }
  if (read.epoch == 0 || read.units == 0 || read.unit_capacity_bps <= 0) {
    return Broken(source, "what is there");
  }
  return read;
}

std::string MemberFile::Text() const {
  std::string text = fmt::format("epoch {}\nunits {}\nunit_capacity_bps {}\n",
                                 epoch, units, unit_capacity_bps);
  for (const Member& member : members) {
    text += fmt::format("member {} {} {} {} {}\n", value(member.controller),
                        member.process.pid, member.process.start_time,
                        member.name, member.machine);
  }
  if (follows_hosts) text += "follows_hosts\n";
  for (const Site& site : sites) {
    text += fmt::format("site {} {} {}\n", site.unit, site.of.host,
                        site.of.address);
  }
  return text;
}

void FileNotes::Remove() { unlink(file_.c_str()); }

absl::Status MemberFile::Write(const std::string& file) const {
  const std::string text = Text();
  const std::string next = file + ".next";
  const int opened =
      open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const auto size = static_cast<ssize_t>(text.size());
  bool is_written =
      opened >= 0 && write(opened, text.data(), text.size()) == size;
  if (opened >= 0) is_written &= close(opened) == 0;
  if (is_written && rename(next.c_str(), file.c_str()) == 0) {
    return absl::OkStatus();
  }
  const int error = errno;
  unlink(next.c_str());
  return absl::UnavailableError(
      fmt::format("{}: {}", file, std::strerror(error)));
}

}  // namespace snf
