// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/pattern_database.h"

#include <hs/hs.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "nfs/snort/option_text.h"

namespace snf::snort {
namespace {

constexpr std::string_view kMagic = "snf-ids-1\n";

// FNV-1a: names files and finds damage, but proves nothing.
uint64_t HashOf(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

void AppendWord(std::string& to, uint64_t word) {
  to.append(reinterpret_cast<const char*>(&word), sizeof word);
}

uint64_t WordAt(std::string_view bytes, size_t at) {
  uint64_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

// Everything that a compiled database depends on.
std::string KeyOf(const std::vector<std::string>& patterns, unsigned flags) {
  hs_platform_info_t platform = {};
  hs_populate_platform(&platform);
  std::string key = hs_version();
  AppendWord(key, platform.tune);
  AppendWord(key, platform.cpu_features);
  AppendWord(key, flags);
  for (const std::string& pattern : patterns) {
    AppendWord(key, pattern.size());
    key += pattern;
  }
  return key;
}

struct DatabaseDeleter {
  void operator()(void* database) const {
    hs_free_database(static_cast<hs_database_t*>(database));
  }
};

// No order of matches is asked for, and no second one of a pattern.
constexpr unsigned kFlags = HS_FLAG_CASELESS | HS_FLAG_SINGLEMATCH;

absl::StatusOr<hs_database_t*> CompileAll(
    const std::vector<std::string>& patterns) {
  std::vector<const char*> texts;
  std::vector<unsigned> flags(patterns.size(), kFlags);
  std::vector<unsigned> ids;
  std::vector<size_t> lengths;
  for (const std::string& pattern : patterns) {
    ids.push_back(static_cast<unsigned>(ids.size()));
    texts.push_back(pattern.data());
    lengths.push_back(pattern.size());
  }
  hs_database_t* database = nullptr;
  hs_compile_error_t* error = nullptr;
  const hs_error_t result =
      hs_compile_lit_multi(texts.data(), flags.data(), ids.data(),
                           lengths.data(), static_cast<unsigned>(texts.size()),
                           HS_MODE_BLOCK, nullptr, &database, &error);
  if (result == HS_SUCCESS) return database;
  const absl::Status status = absl::InternalError(
      Cat("Vectorscan: ", error == nullptr ? "no memory" : error->message));
  if (error != nullptr) hs_free_compile_error(error);
  return status;
}

}  // namespace

std::string DatabaseCache::UsualFolder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return Cat(cache, "/snf");
  const char* const home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return Cat(home, "/.cache/snf");
  return "";
}

std::string DatabaseCache::FileOf(std::string_view key) const {
  char name[40];
  // Two hashes, so that names of many sets of rules differ.
  const std::string twice = Cat(key, "2");
  std::snprintf(name, sizeof name, "ids-%016llx%016llx.hs",
                static_cast<unsigned long long>(HashOf(key)),
                static_cast<unsigned long long>(HashOf(twice)));
  return Cat(folder_, "/", std::string(name));
}

// A file is the magic, the sizes of key and database, the hash of both, the
// key, and the database.
std::string DatabaseCache::Find(std::string_view key) const {
  if (folder_.empty()) return "";
  std::ifstream file(FileOf(key), std::ios::binary);
  if (!file) return "";
  std::stringstream text;
  text << file.rdbuf();
  const std::string whole = std::move(text).str();
  constexpr size_t kHead = kMagic.size() + 3 * sizeof(uint64_t);
  if (whole.size() < kHead || !whole.starts_with(kMagic)) return "";
  const uint64_t key_bytes = WordAt(whole, kMagic.size());
  const uint64_t database_bytes = WordAt(whole, kMagic.size() + 8);
  const std::string_view rest = std::string_view(whole).substr(kHead);
  if (key_bytes != key.size() || database_bytes > rest.size() ||
      rest.size() - database_bytes != key_bytes ||
      rest.substr(0, key_bytes) != key ||
      HashOf(rest) != WordAt(whole, kMagic.size() + 16)) {
    return "";
  }
  return std::string(rest.substr(key_bytes));
}

void DatabaseCache::Keep(std::string_view key,
                         std::string_view database) const {
  if (folder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) return;
  static std::atomic<uint64_t> number = 0;
  const std::string file = FileOf(key);
  const std::string beside =
      Cat(file, ".", static_cast<long>(getpid()), ".", number++);
  std::string whole(kMagic);
  AppendWord(whole, key.size());
  AppendWord(whole, database.size());
  AppendWord(whole, HashOf(Cat(key, database)));
  Append(whole, key, database);
  bool is_written = false;
  {
    std::ofstream out(beside, std::ios::binary);
    out.write(whole.data(), static_cast<std::streamsize>(whole.size()));
    out.flush();
    is_written = out.good();
  }
  if (is_written) std::filesystem::rename(beside, file, error);
  if (!is_written || error) std::filesystem::remove(beside, error);
}

PatternDatabase::Scratch::~Scratch() {
  hs_free_scratch(static_cast<hs_scratch_t*>(scratch_));
}

absl::Status PatternDatabase::Scratch::Add(const PatternDatabase& database) {
  if (database.is_empty()) return absl::OkStatus();
  auto* scratch = static_cast<hs_scratch_t*>(scratch_);
  const hs_error_t result = hs_alloc_scratch(
      static_cast<const hs_database_t*>(database.database_.get()), &scratch);
  scratch_ = scratch;
  if (result == HS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(Cat("Vectorscan: no scratch, error ", result));
}

absl::StatusOr<PatternDatabase> PatternDatabase::Compile(
    const std::vector<std::string>& patterns, const DatabaseCache& cache) {
  PatternDatabase made;
  if (patterns.empty()) return made;
  if (hs_valid_platform() != HS_SUCCESS) {
    return absl::FailedPreconditionError(
        "Vectorscan: this CPU has not the features that it needs");
  }
  const std::string key = KeyOf(patterns, kFlags);
  hs_database_t* database = nullptr;
  const std::string kept = cache.Find(key);
  if (!kept.empty() && hs_deserialize_database(kept.data(), kept.size(),
                                               &database) == HS_SUCCESS) {
    made.is_from_cache_ = true;
  } else {
    const absl::StatusOr<hs_database_t*> compiled = CompileAll(patterns);
    if (!compiled.ok()) return compiled.status();
    database = *compiled;
    char* serialised = nullptr;
    size_t bytes = 0;
    if (hs_serialize_database(database, &serialised, &bytes) == HS_SUCCESS) {
      cache.Keep(key, {serialised, bytes});
      std::free(serialised);
    }
  }
  made.database_ = std::shared_ptr<void>(database, DatabaseDeleter{});
  hs_database_size(database, &made.bytes_);
  return made;
}

void PatternDatabase::Find(std::string_view text, Scratch& scratch,
                           std::vector<uint32_t>& found) const {
  if (is_empty() || text.empty()) return;
  const auto note = [](unsigned id, unsigned long long, unsigned long long,
                       unsigned, void* to) {
    static_cast<std::vector<uint32_t>*>(to)->push_back(id);
    return 0;
  };
  hs_scan(static_cast<const hs_database_t*>(database_.get()), text.data(),
          static_cast<unsigned>(text.size()), 0,
          static_cast<hs_scratch_t*>(scratch.scratch_), note, &found);
}

}  // namespace snf::snort
