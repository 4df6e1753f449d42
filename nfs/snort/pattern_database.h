// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_SNORT_PATTERN_DATABASE_H_
#define SNF_NFS_SNORT_PATTERN_DATABASE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace snf::snort {

// Compiled databases of Vectorscan in files, so that the next start takes less
// time. A file is named after a hash of the patterns, of the library's version
// and of the CPU's features, and holds all of them: only a file that is about
// exactly these is taken. Written beside its place and renamed, so that no
// reader sees half a file. A cache that cannot be read or written is as if it
// were empty. Thread-compatible.
class DatabaseCache {
 public:
  // An empty folder means no cache.
  explicit DatabaseCache(std::string folder) : folder_(std::move(folder)) {}

  // Returns $XDG_CACHE_HOME/snf, ~/.cache/snf, or "" if neither is known.
  static std::string UsualFolder();

  // Returns the serialised database of the key, or "".
  std::string Find(std::string_view key) const;
  void Keep(std::string_view key, std::string_view database) const;
  // The file of a key.
  std::string FileOf(std::string_view key) const;

 private:
  std::string folder_;
};

// Finds many literal patterns at once, without regard to case, each once in a
// text. Compiled by Vectorscan; immutable, shared by threads.
class PatternDatabase {
 public:
  // Memory that one thread needs for searches in any database that it was made
  // for.
  class Scratch {
   public:
    Scratch() = default;
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    // Makes it fit for one more database.
    absl::Status Add(const PatternDatabase& database);

   private:
    friend class PatternDatabase;
    void* scratch_ = nullptr;
  };

  // `patterns` are lower-case, not empty and different from one another; a
  // match is told by the pattern's index. Internal if Vectorscan refuses.
  static absl::StatusOr<PatternDatabase> Compile(
      const std::vector<std::string>& patterns, const DatabaseCache& cache);

  // Appends the indices of all patterns that the text has, each once, in no
  // order.
  void Find(std::string_view text, Scratch& scratch,
            std::vector<uint32_t>& found) const;

  bool is_empty() const { return database_ == nullptr; }
  size_t bytes() const { return bytes_; }
  bool is_from_cache() const { return is_from_cache_; }

 private:
  std::shared_ptr<void> database_;
  size_t bytes_ = 0;
  bool is_from_cache_ = false;
};

}  // namespace snf::snort

#endif  // SNF_NFS_SNORT_PATTERN_DATABASE_H_
