// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "traces/capture_reader.h"
#include "traces/capture_writer.h"
#include "traces/merged_reader.h"

namespace snf {
namespace {

constexpr uint32_t kPackets = 200'000;
constexpr uint32_t kPacketBytes = 96;  // as in a capture cut to its headers

// A generated capture that goes away with the benchmark.
class GeneratedCapture {
 public:
  explicit GeneratedCapture(const std::string& suffix) {
    std::string folder =
        (std::filesystem::temp_directory_path() / "snf-bench-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) {
      std::perror(folder.c_str());
      std::exit(1);
    }
    folder_ = folder;
    auto writer = *CaptureWriter::Open(path(suffix), {});
    std::vector<std::byte> bytes(kPacketBytes);
    for (uint32_t i = 0; i < kPackets; ++i) {
      bytes[i % kPacketBytes] = static_cast<std::byte>(i * 37);
      writer->Write({.time = {int64_t{i} * 1'000},
                     .bytes = bytes,
                     .original_bytes = 1'500});
    }
    if (!writer->Close().ok()) {
      std::exit(1);
    }
  }
  ~GeneratedCapture() { std::filesystem::remove_all(folder_); }
  GeneratedCapture(const GeneratedCapture&) = delete;
  GeneratedCapture& operator=(const GeneratedCapture&) = delete;

  std::string path(const std::string& suffix) const {
    return (folder_ / ("generated" + suffix)).string();
  }

 private:
  std::filesystem::path folder_;
};

template <typename Reader>
void Walk(benchmark::State& state, Reader& reader) {
  CapturedPacket packet;
  while (reader.Next(packet) == ReadResult::kPacket) {
    benchmark::DoNotOptimize(packet);
  }
  if (!reader.status().ok()) {
    state.SkipWithError("the capture could not be read");
  }
}

// Time per packet, opening included.
void SetPacketTime(benchmark::State& state, uint32_t files) {
  state.counters["per_packet"] =
      benchmark::Counter(static_cast<double>(kPackets) * files,
                         benchmark::Counter::kIsIterationInvariantRate |
                             benchmark::Counter::kInvert);
}

void BM_ReadCapture(benchmark::State& state, const std::string& suffix) {
  const GeneratedCapture capture(suffix);
  for ([[maybe_unused]] auto _ : state) {
    auto reader = CaptureReader::Open(capture.path(suffix));
    Walk(state, **reader);
  }
  SetPacketTime(state, 1);
}
BENCHMARK_CAPTURE(BM_ReadCapture, pcap, ".pcap");
BENCHMARK_CAPTURE(BM_ReadCapture, pcapng, ".pcapng");
BENCHMARK_CAPTURE(BM_ReadCapture, pcap_gz, ".pcap.gz");
BENCHMARK_CAPTURE(BM_ReadCapture, pcap_zst, ".pcap.zst");

void BM_MergeCaptures(benchmark::State& state) {
  const GeneratedCapture capture(".pcap");
  const auto files = static_cast<uint32_t>(state.range(0));
  const std::vector<std::string> paths(files, capture.path(".pcap"));
  for ([[maybe_unused]] auto _ : state) {
    auto reader = MergedReader::Open(paths);
    Walk(state, **reader);
  }
  SetPacketTime(state, files);
}
BENCHMARK(BM_MergeCaptures)->Arg(1)->Arg(4)->Arg(16);

void BM_WriteCapture(benchmark::State& state, const std::string& suffix) {
  for ([[maybe_unused]] auto _ : state) {
    const GeneratedCapture capture(suffix);
  }
  SetPacketTime(state, 1);
}
BENCHMARK_CAPTURE(BM_WriteCapture, pcap, ".pcap");
BENCHMARK_CAPTURE(BM_WriteCapture, pcapng, ".pcapng");
BENCHMARK_CAPTURE(BM_WriteCapture, pcapng_zst, ".pcapng.zst");

}  // namespace
}  // namespace snf
