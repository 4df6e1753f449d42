// SPDX-License-Identifier: Apache-2.0
//
// An NF that looks through all memory that its process shares with others, once
// in an object. Each packet has a mark at the end of its
// headers, which names its flow, and the NF keeps the mark in the flow's state:
// so a mark of a flow that the object never got is another's packet or state.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/sdk/nf.h"

namespace snf {
namespace {

// As isolation_test.py makes them: the word, then the number of the flow.
struct Mark {
  std::array<char, 6> word;
  std::array<uint8_t, 2> flow;

  static constexpr std::string_view kWord = "s1n2f3";
  bool is() const {
    return std::string_view(word.data(), word.size()) == kWord;
  }
  uint32_t number() const { return uint32_t{flow[0]} << 8 | flow[1]; }
};
static_assert(sizeof(Mark) == 8);

using Memory = std::span<std::byte>;

// Maps what the process has of memory that others may have mapped, by its
// descriptors, which may name one twice.
std::vector<Memory> MapAll() {
  constexpr int kMost = 1'024;
  std::vector<Memory> all;
  std::set<ino_t> known;
  for (int file = 0; file < kMost; ++file) {
    struct stat facts {};
    if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode)) continue;
    const auto bytes = static_cast<size_t>(facts.st_size);
    if (bytes == 0 || !known.insert(facts.st_ino).second) continue;
    void* const at =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) continue;
    all.emplace_back(static_cast<std::byte*>(at), bytes);
  }
  return all;
}

class Scanner final : public NetworkFunction {
 public:
  explicit Scanner(NfOptions& /*options*/) {}

  Verdict process_packet(Packet& packet, FlowState& state) override {
    Mark mark;
    const size_t at = packet.bytes().size() - sizeof(mark);
    std::memcpy(&mark, &packet.bytes()[at], sizeof(mark));
    if (!mark.is()) return Verdict::forward();
    mine_.insert(mark.number());
    state.put(mark_, mark);
    if (++packets_ == kPackets) Look();
    return Verdict::forward();
  }

 private:
  static constexpr uint32_t kPackets = 500;

  void Look() {
    for (const Memory memory : MapAll()) {
      count(looked_);
      std::string_view left(reinterpret_cast<const char*>(memory.data()),
                            memory.size());
      size_t at = 0;
      while ((at = left.find(Mark::kWord)) != std::string_view::npos &&
             left.size() - at >= sizeof(Mark)) {
        Mark mark;
        std::memcpy(&mark, &left[at], sizeof(mark));
        left.remove_prefix(at + 1);
        count(mine_.contains(mark.number()) ? own_ : others_);
      }
      munmap(memory.data(), memory.size());
    }
  }

  uint32_t packets_ = 0;
  std::set<uint32_t> mine_;
  Slot<Mark> mark_ = declare<Mark>("mark");
  Counter looked_ = declare_counter("looked", "memories shared with others");
  Counter own_ = declare_counter("own", "marks of its own flows");
  Counter others_ = declare_counter("others", "marks of others' flows");
};
SNF_REGISTER_NF(Scanner, "scanner", "looks for what is others'");

}  // namespace
}  // namespace snf
