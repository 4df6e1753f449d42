// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_TABLES_TABLE_VIEW_H_
#define SNF_RUNTIME_TABLES_TABLE_VIEW_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "runtime/sdk/table_copy.h"

namespace snf {

// Theory of operation. A unit's view of a shared table if its updates go by its
// log (proto/protocol.md T6): the totals that the table's home told last, and
// the unit's own updates that are not in these totals yet. Own updates bear
// the numbers of the log. The home says with each total up to which number it
// has the unit's updates, so a read has each once.
//
// Worked example: the updates 4 and 5 of the unit add 1 each to a key, of which
// the home told 10. A read gives 12. The home tells 17, with all up to 4: a
// read gives 18.
//
// A key whose updates the home merged into the rest is never told. Such own
// updates go at the end of a sweep, whose last message tells the rest.
//
// Owner-thread only. Memory: at most kMaxOwn own updates. Updates beyond these
// are seen once the home tells them.
class TableView final : public TableTotals {
 public:
  static constexpr size_t kMaxOwn = 65'536;

  explicit TableView(const TableShape& shape);

  // The copy has the totals of the home alone.
  TableCopy& totals() { return totals_; }
  const TableCopy& totals() const { return totals_; }

  // The unit has logged this update; `key` is null for the rest.
  void Add(uint64_t number, const uint64_t* key, bool erases,
           const uint64_t* delta);
  // The total of the key, or of the rest if `key` is null, now has the unit's
  // updates up to this number.
  void on_told(const uint64_t* key, uint64_t number);
  // All totals are told that have the unit's updates up to this number.
  void EndSweep(uint64_t number);

  bool Read(const uint64_t* key, uint64_t* value) const override;
  void ReadRest(uint64_t* value) const override;
  uint32_t size() const override;
  void AppendKeys(std::vector<uint64_t>& keys) const override;
  size_t kept() const { return kept_; }

 private:
  struct Update {
    uint64_t number;
    bool erases;
    std::vector<uint64_t> delta;
  };
  // The own updates of a key, and their sum.
  struct Own {
    std::deque<Update> updates{};
    std::vector<uint64_t> sum{};
    bool is_erased = false;  // the total does not count
  };
  using Key = std::vector<uint64_t>;
  using KeyView = std::span<const uint64_t>;
  struct Before {
    using is_transparent = void;
    static KeyView View(KeyView key) { return key; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return std::ranges::lexicographical_compare(View(a), View(b));
    }
  };

  void Merge(const Update& update, Own& own) const;
  void Forget(uint64_t number, Own& own);
  void Apply(const Own& own, uint64_t* value) const;

  TableShape shape_;
  TableCopy totals_;
  std::map<Key, Own, Before> own_;  // by key
  Own rest_;
  size_t kept_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_TABLES_TABLE_VIEW_H_
