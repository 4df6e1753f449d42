// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_FIXTURE_FOLDER_H_
#define SNF_TRACES_FIXTURE_FOLDER_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace snf {

// A folder for a test or benchmark, which may run at the same time as any
// other. Removed with the object.
class TestFolder {
 public:
  TestFolder() {
    std::string name = testing::TempDir() + "snf-test-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr) << name;
    path_ = name;
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string Path(const std::string& name) const {
    return (path_ / name).string();
  }
  std::string Write(const std::string& name, std::string_view bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
    return Path(name);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace snf

#endif  // SNF_TRACES_FIXTURE_FOLDER_H_
