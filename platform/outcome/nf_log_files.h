// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_OUTCOME_NF_LOG_FILES_H_
#define SNF_PLATFORM_OUTCOME_NF_LOG_FILES_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/outcome/ipfix_exporter.h"
#include "platform/run/run.h"
#include "platform/run/run_events.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {

// Theory of operation. The log records of NFs leave with packets
// (base/messages/log_batch.h); the files of a directory, one for each log, take
// them as lines during the run. A driver's thread only copies a batch
// into a queue. A thread of this class lets an object of the NF make lines of
// the records, and writes them; and IPFIX (ipfix_exporter.h).
//
// Worked example: "nat | ids" runs with the directory /var/log/edge. An alert
// leaves with its packet, and is a line of /var/log/edge/ids.alerts.log some
// 0.1 ms later. Lines stand in the order in which records left, so lines of one
// flow have the flow's order.
//
// The queue is bounded. Where records may be lost, a batch that finds it full
// is, and its records are counted; otherwise the driver waits.
//
// Thread-safe. The thread begins with the first record.
class NfLogFiles {
 public:
  struct Options {
    std::string directory;  // "": none
    // A file or collector that takes records as IPFIX, where NFs have them in
    // that form (IpfixExporter); "": none.
    std::string ipfix = {};
    // Lines are appended to the files; else the files are emptied first.
    bool appends = true;
    // A driver waits while the queue is full, so no record is lost.
    bool waits = false;
    size_t queue_bytes = size_t{16} << 20;
  };
  class Reader;

  // Makes the directory if it is absent. Unavailable names the directory, or
  // the file or collector of IPFIX.
  static absl::StatusOr<std::unique_ptr<NfLogFiles>> Open(
      const Options& options);
  // Writes the queued records. All readers' runs have ended.
  ~NfLogFiles();
  NfLogFiles(const NfLogFiles&) = delete;
  NfLogFiles& operator=(const NfLogFiles&) = delete;

  // Opens the files of the NF's logs, and returns an observer for a run of the
  // NF, also on several threads, which is valid as long as this. Unavailable
  // names the file that cannot be opened.
  absl::StatusOr<Reader*> Read(const NfSpec& nf);
  // Opens the files by their names again, as after a rotation, before the next
  // line is written.
  void Reopen() { reopen_ = true; }
  // Writes the queued records, and returns the first error of writing.
  absl::Status Flush();

  // Sets the counts of records lost on the way to the files. Any thread.
  void AddLosses(NfLogFigures& figures) const {
    figures.queue_full = queue_full_;
    figures.write_failed = write_failed_;
  }

 private:
  // Before each batch in the queue.
  struct Head {
    Reader* reader;
    Instant arrival;
    size_t bytes;
  };
  struct File {
    int fd = -1;
    std::string lines;     // not written yet
    bool is_torn = false;  // ends amid a line
  };

  explicit NfLogFiles(const Options& options) : options_(options) {}

  void Push(Reader& reader, Instant arrival, std::span<const std::byte> batch);
  void Run();
  void Write(std::span<const std::byte> queued);
  void WriteBatch(const Head& head, std::span<const std::byte> batch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(files_mutex_);
  void WriteIpfix(const NfLog& log, const LogRecord& record)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(files_mutex_);
  void WriteLines(const std::string& name, File& file)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(files_mutex_);
  std::string PathOf(const std::string& name) const;
  absl::Status OpenFile(const std::string& name, bool appends, File& file);

  const Options options_;
  std::atomic<bool> reopen_ = false;
  std::atomic<uint64_t> queue_full_ = 0;
  std::atomic<uint64_t> write_failed_ = 0;

  std::mutex queue_mutex_;
  std::condition_variable has_changed_;
  std::vector<std::byte> queue_ ABSL_GUARDED_BY(queue_mutex_);
  bool is_writing_ ABSL_GUARDED_BY(queue_mutex_) = false;
  bool ends_ ABSL_GUARDED_BY(queue_mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(queue_mutex_);

  std::mutex files_mutex_;
  std::map<std::string, File> files_ ABSL_GUARDED_BY(files_mutex_);
  std::deque<Reader> readers_ ABSL_GUARDED_BY(files_mutex_);
  std::unique_ptr<IpfixExporter> ipfix_ ABSL_GUARDED_BY(files_mutex_);
  absl::Status status_ ABSL_GUARDED_BY(files_mutex_);
};

// Hands the records of one run on.
class NfLogFiles::Reader final : public RunObserver {
 public:
  Reader(NfLogFiles& files, std::unique_ptr<NetworkFunction> nf)
      : files_(files), nf_(std::move(nf)), logs_(LogsOf(*nf_)) {}

  void on_records(Instant arrival, std::span<const std::byte> batch) override {
    files_.Push(*this, arrival, batch);
  }

 private:
  friend class NfLogFiles;

  NfLogFiles& files_;
  std::unique_ptr<NetworkFunction> nf_;
  std::vector<NfLog> logs_;  // by LogId
};

}  // namespace snf

#endif  // SNF_PLATFORM_OUTCOME_NF_LOG_FILES_H_
