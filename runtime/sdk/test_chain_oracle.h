// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_TEST_CHAIN_ORACLE_H_
#define SNF_RUNTIME_SDK_TEST_CHAIN_ORACLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/sdk/test_chain.h"

namespace snf {

// Predicts what a chain of "step" NFs does, by another algorithm than the
// chain's: it walks a tree of NFs, keeps a record for each NF and connection in
// a map, and copies everything in case the packet waits. For tests.
class ChainOracle {
 public:
  struct Node;
  using Tree = std::vector<Node>;
  struct Node {
    char id;  // 'a' and so on, in the order of the text
    std::string options;
    std::vector<std::pair<std::string, Tree>> arms;
  };

  ChainOracle(const Tree& tree, uint32_t connections);

  static std::string TextOf(const Tree& tree);

  ChainFlow::Outcome Send(ChainWorld& world, const ChainPacket& packet);
  ChainWorld::Said on_timer(ChainWorld& world);
  ChainWorld::Said on_end(ChainWorld& world, Instant now);
  ChainWorld::Said on_alias_refused(ChainWorld& world, Instant now);

  Instant timer() const;
  uint64_t count(size_t nf) const { return state_.counts.at(nf); }
  uint64_t forgotten() const { return state_.forgotten; }
  // Expects that the chain's state of the flow equals the oracle's.
  void ExpectIsKept(const NetworkFunction& chain, const ChainFlow& flow) const;

 private:
  struct Nf {
    std::unique_ptr<NetworkFunction> nf;
    std::string name;
    uint16_t first_pool;
    bool is_of_connections;
  };
  struct Kept {
    std::vector<std::byte> record;
    Instant timer = Instant::max();
  };
  static constexpr int kFlow = -1;  // instead of a connection's far end
  struct State {
    std::map<std::pair<size_t, int>, Kept> kept;  // by NF and far end
    std::list<int> connections;                   // the one used last is last
    std::vector<uint64_t> counts;
    uint64_t forgotten = 0;
  };
  class Services;

  void Add(const Tree& tree);
  // Walk and Visit return the packet's verdict, or nothing if it goes on.
  std::optional<std::string> Walk(const Tree& tree, size_t begin, size_t end);
  std::optional<std::string> Visit(const Node& node);
  void Call(size_t nf, int connection,
            const std::function<void(NetworkFunction&, FlowState&)>& call);
  void UseConnection(int far_end);
  void EndConnection(int far_end);

  Tree tree_;
  uint32_t max_connections_;
  std::vector<Nf> nfs_;
  std::optional<size_t> sided_;  // the NF of tree_ with two sides
  bool has_table_ = false;
  State state_;
  // The call under way.
  ChainWorld* world_ = nullptr;
  Packet* packet_ = nullptr;
  int far_end_ = 0;
  Instant now_;
  bool is_connection_over_ = false;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_TEST_CHAIN_ORACLE_H_
