// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/chains/pool_exchange.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string_view>
#include <utility>

namespace snf {
namespace {

// The name of an NF of a chain, a word, stands before the names of its pools.
std::string WithoutNf(const std::string& pool) {
  const size_t dot = pool.find('.');
  const bool has_nf =
      dot != pool.npos &&
      std::ranges::all_of(std::string_view(pool).substr(0, dot),
                          [](unsigned char c) {
                            return std::isalnum(c) != 0 || c == '_' || c == '#';
                          });
  return has_nf ? pool.substr(dot + 1) : pool;
}

std::vector<std::string> NamesOf(const RealDriver& driver) {
  std::vector<std::string> names;
  for (const NetworkFunction::Pool& pool : driver.pieces().pools()) {
    std::string name = WithoutNf(pool.name);
    while (std::ranges::find(names, name) != names.end()) name += '\'';
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

PoolExchange::Share PoolExchange::AllOf(const RealDriver& driver) {
  Share share = {.names = NamesOf(driver), .pieces = {}};
  for (size_t pool = 0; pool < share.names.size(); ++pool) {
    share.pieces.push_back(driver.pieces().All(pool));
  }
  return share;
}

PoolExchange::Pools PoolExchange::SettleOlder(RealDriver& driver) {
  const std::vector<std::string> names = NamesOf(driver);
  Pools held;
  for (size_t pool = 0; pool < names.size(); ++pool) {
    const Words free = driver.pieces().Free(pool);
    Words& of_units = held[names[pool]] = driver.pieces().All(pool);
    for (size_t word = 0; word < free.size(); ++word) {
      of_units[word] &= ~free[word];
    }
    driver.pieces().Remove(pool, free);
  }
  return held;
}

void PoolExchange::SettleNewest(RealDriver& driver, const Pools& held) {
  const std::vector<std::string> names = NamesOf(driver);
  for (size_t pool = 0; pool < names.size(); ++pool) {
    const auto others = held.find(names[pool]);
    if (others == held.end() ||
        others->second.size() != driver.pieces().pools()[pool].words()) {
      continue;
    }
    driver.pieces().Remove(pool, others->second);
  }
}

void PoolExchange::KeepBut(const Pools& held, Share& share) {
  for (size_t pool = 0; pool < share.names.size(); ++pool) {
    const Words& of_units = held.at(share.names[pool]);
    Words free = std::exchange(share.pieces[pool], of_units);
    for (size_t word = 0; word < free.size(); ++word) {
      free[word] &= ~of_units[word];
    }
    kept_[share.names[pool]] = std::move(free);
  }
}

void PoolExchange::KeepFree(const Holder& from) {
  for (size_t pool = 0; pool < from.share->pieces.size(); ++pool) {
    Words free = from.driver->pieces().Free(pool);
    from.driver->pieces().Remove(pool, free);
    for (size_t word = 0; word < free.size(); ++word) {
      from.share->pieces[pool][word] &= ~free[word];
    }
    kept_[from.share->names[pool]] = std::move(free);
  }
}

void PoolExchange::GiveKept(const Holder& to) {
  for (size_t pool = 0; pool < to.share->pieces.size(); ++pool) {
    Words& pieces = to.share->pieces[pool];
    const auto kept = kept_.find(to.share->names[pool]);
    if (kept == kept_.end() || kept->second.size() != pieces.size()) continue;
    Words missing = pieces;
    for (size_t word = 0; word < pieces.size(); ++word) {
      missing[word] &= ~kept->second[word];
      pieces[word] &= kept->second[word];
    }
    to.driver->pieces().Remove(pool, missing);
    kept_.erase(kept);
  }
}

void PoolExchange::Keep(const Share& share) {
  for (size_t pool = 0; pool < share.names.size(); ++pool) {
    kept_[share.names[pool]] = share.pieces[pool];
  }
}

void PoolExchange::TakeBack(const Pools& more) {
  Share share;
  for (const auto& [name, words] : more) {
    share.names.push_back(name);
    share.pieces.push_back(words);
  }
  TakeBack(share);
}

void PoolExchange::TakeBack(const Share& ended) {
  for (size_t i = 0; i < ended.pieces.size(); ++i) {
    const Words& pieces = ended.pieces[i];
    Words* into = nullptr;
    bool fits = true;
    for (const auto& newest : newest_) {
      const Holder holder = newest();
      const auto& names = holder.share->names;
      const auto same = std::ranges::find(names, ended.names[i]);
      if (same == names.end()) continue;
      const auto pool = static_cast<size_t>(same - names.begin());
      kept_.erase(ended.names[i]);
      into = &holder.share->pieces[pool];
      fits = into->size() == pieces.size();
      if (fits) holder.driver->pieces().Add(pool, pieces);
      break;
    }
    if (!fits) continue;
    if (into == nullptr) into = &kept_[ended.names[i]];
    into->resize(std::max(into->size(), pieces.size()));
    for (size_t word = 0; word < pieces.size(); ++word) {
      (*into)[word] |= pieces[word];
    }
  }
}

}  // namespace snf
