// SPDX-License-Identifier: Apache-2.0
#include "trireme/checkpoint/background_files.h"

#include "support/temporary_folder.h"

#include "trireme/checkpoint/numbers.h"
#include "trireme/core/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace trireme::checkpoint {
namespace {

using support::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<Spec> kTwo{{.name = "a", .type = "U8", .sizes = {2}, .size = Bytes(2)},
                             {.name = "b", .type = "U8", .sizes = {3}, .size = Bytes(3)}};

TEST(BackgroundFiles, AreWhatWasThereWhenTheyWereBegun) {
  const TemporaryFolder folder;
  BackgroundFiles files;
  for (int time = 0; time < 2; ++time) {
    std::vector<std::byte> bytes{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4},
                                 std::byte{5}};
    const std::string name = time == 0 ? "one" : "two";
    files.begin_file(folder / name, kTwo);
    files.append(std::span(bytes).first(2));
    files.append(std::span(bytes).last(3));
    bytes.assign(5, std::byte{9});
    files.start();
    const Manifest manifest = files.finish();
    std::vector<std::byte> read(3);
    read_tensor(folder.path(), "b", manifest.tensors.at("b"), read);
    EXPECT_THAT(read, ElementsAre(std::byte{3}, std::byte{4}, std::byte{5}));
  }
}

TEST(BackgroundFiles, TakeNoValueThatIsNoNumber) {
  const TemporaryFolder folder;
  BackgroundFiles files;
  files.begin_file(folder / "one", {{.name = "w", .type = "BF16", .sizes = {1}, .size = Bytes(2)}});
  files.append(std::vector{std::byte{0x80}, std::byte{0xff}});  // -inf
  files.start();
  EXPECT_THROW(files.finish(), NoNumberError);
}

// The losses of further steps make the files a little longer.
TEST(BackgroundFiles, KeepTheirMemoryForALittleMore) {
  const TemporaryFolder folder;
  BackgroundFiles files;
  std::vector<Bytes> rooms;
  for (const int size : {8000, 8008, 8016, 20000}) {
    files.begin_file(folder / std::to_string(size),
                     {{.name = "a", .type = "U8", .sizes = {size}, .size = Bytes(size)}});
    rooms.push_back(files.room());
    files.append(std::vector<std::byte>(static_cast<std::size_t>(size)));
    files.start();
    files.finish();
  }
  EXPECT_THAT(rooms, ElementsAre(Bytes(9000), Bytes(9000), Bytes(9000), Bytes(22500)));
}

TEST(BackgroundFiles, ThatCannotBeWrittenSayWhy) {
  const TemporaryFolder folder;
  BackgroundFiles files;
  files.begin_file(folder / "missing" / "file", {});
  files.start();
  while (!files.is_done()) continue;
  try {
    files.finish();
    FAIL() << "was written";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("missing/file: cannot be"));
  }
}

}  // namespace
}  // namespace trireme::checkpoint
