// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a capture: it gives packets, or an error with file, offset and
// reason, and never nothing.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "traces/capture_reader.h"

namespace snf {
namespace {

// A file in memory that has a name.
class MemoryFile {
 public:
  MemoryFile(const uint8_t* data, size_t bytes)
      : fd_(memfd_create("capture", 0)) {
    SNF_CHECK(fd_ >= 0);
    SNF_CHECK(write(fd_, data, bytes) == static_cast<ssize_t>(bytes));
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

void CheckError(const absl::Status& status, const std::string& path) {
  const std::string message(status.message());
  SNF_CHECK(absl::IsDataLoss(status) || absl::IsUnimplemented(status));
  SNF_CHECK(message.starts_with(path + ": offset "));
  SNF_CHECK(message.find('\n') == std::string::npos);
}

// Returns the number of packets.
uint64_t ReadAll(const std::string& path, bool mends) {
  auto opened = CaptureReader::Open(path);
  if (!opened.ok()) {
    CheckError(opened.status(), path);
    return 0;
  }
  CaptureReader& reader = **opened;
  if (mends) reader.MendStrayTimes();
  CapturedPacket packet;
  ReadResult result = ReadResult::kPacket;
  while ((result = reader.Next(packet)) == ReadResult::kPacket) {
    SNF_CHECK(packet.original_bytes >= packet.bytes.size());
    // A copy reads every byte, in sight of the sanitizer.
    const std::vector<std::byte> copy(packet.bytes.begin(), packet.bytes.end());
    SNF_CHECK(copy.size() == packet.bytes.size());
  }
  if (result == ReadResult::kError) {
    CheckError(reader.status(), path);
  } else {
    SNF_CHECK(reader.packets_read() > 0);
  }
  return reader.packets_read();
}

}  // namespace
}  // namespace snf

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const snf::MemoryFile file(data, bytes);
  const uint64_t packets = snf::ReadAll(file.path(), false);
  SNF_CHECK(snf::ReadAll(file.path(), true) == packets);
  return 0;
}
