// SPDX-License-Identifier: Apache-2.0
#include "trireme/io/file.h"

#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/core/error.h"
#include "trireme/io/pieces.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace trireme::io {
namespace {

namespace fs = std::filesystem;
using support::input_error;
using support::TemporaryFolder;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

std::vector<fs::path> contents_of(const fs::path& folder) {
  std::vector<fs::path> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(WriteFile, GivesBackEveryByte) {
  const TemporaryFolder folder;
  std::string content = "a\r\n\n";
  for (int i = 0; i < 300'000; ++i) content.push_back(static_cast<char>(i * 7));

  write_file(folder / "x", content);

  EXPECT_EQ(read_file(folder / "x"), content);
}

TEST(WriteFile, MakesMissingFolders) {
  const TemporaryFolder folder;

  write_file(folder / "a/b/c.txt", "x");

  EXPECT_EQ(read_file(folder / "a/b/c.txt"), "x");
}

TEST(WriteFile, LeavesNothingButTheFile) {
  const TemporaryFolder folder;

  write_file(folder / "x", "old");
  write_file(folder / "x", "new");

  EXPECT_EQ(read_file(folder / "x"), "new");
  EXPECT_THAT(contents_of(folder.path()), ElementsAre("x"));
}

TEST(RemoveDrafts, TakesThoseOfTheNamedFilesAlone) {
  const TemporaryFolder folder;
  const std::vector<std::string> kept{".a.yaml..part", ".a.yaml.12x.part", ".b.yaml.12.part",
                                      "a.yaml", "a.yaml.12.part"};
  for (const std::string& file : kept) write_file(folder / file, "x");
  write_file(folder / ".a.yaml.12.part", "x");
  write_file(folder / ".summary.7.part", "x");

  remove_drafts(folder.path(), {"a.yaml", "summary"});

  EXPECT_THAT(contents_of(folder.path()), ElementsAreArray(kept));
}

// A reader that runs concurrently with the writer sees the old or the new content, complete.
TEST(WriteFile, NeverShowsAHalf) {
  const TemporaryFolder folder;
  const fs::path file = folder / "x";
  const std::string old_content(200'000, 'a');
  const std::string new_content(300'000, 'b');
  write_file(file, old_content);

  std::thread writer([&] {
    for (int i = 0; i < 20; ++i) write_file(file, i % 2 == 0 ? new_content : old_content);
  });
  int halves = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string seen = read_file(file);
    halves += seen == old_content || seen == new_content ? 0 : 1;
  }
  writer.join();

  EXPECT_EQ(halves, 0);
}

TEST(WriteFile, KeepsTheOldFileWhenTheDiskRefuses) {
  const TemporaryFolder folder;
  write_file(folder / "x", "old");
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const rlimit small{.rlim_cur = 1000, .rlim_max = old_limit.rlim_max};

  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(write_file(folder / "x", std::string(5000, 'n')), Error);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  std::signal(SIGXFSZ, old_handler);

  EXPECT_EQ(read_file(folder / "x"), "old");
  EXPECT_THAT(contents_of(folder.path()), ElementsAre("x"));
}

TEST(WriteFile, FollowsASymbolicLink) {
  const TemporaryFolder folder;
  write_file(folder / "real", "old");
  fs::create_symlink("real", folder / "link");

  write_file(folder / "link", "new");

  EXPECT_EQ(read_file(folder / "real"), "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
}

TEST(WriteFile, MakesWhatALinkNames) {
  const TemporaryFolder folder;
  fs::create_symlink("second", folder / "first");
  fs::create_symlink("real", folder / "second");
  fs::create_symlink("circle", folder / "circle");

  write_file(folder / "first", "new");

  EXPECT_TRUE(fs::is_symlink(folder / "first"));
  EXPECT_TRUE(fs::is_symlink(folder / "second"));
  EXPECT_EQ(read_file(folder / "real"), "new");
  EXPECT_THROW(write_file(folder / "circle", "new"), Error);
}

TEST(WriteFile, WritesIntoADeviceItself) {
  EXPECT_NO_THROW(write_file("/dev/null", "x"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(WriteFile, WritesIntoAPipeBehindALink) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const std::string file = "/dev/fd/" + std::to_string(ends[1]);
  EXPECT_NO_THROW(require_writable(file));
  EXPECT_NO_THROW(write_file(file, "x"));
  char read = 0;
  EXPECT_EQ(::read(ends[0], &read, 1), 1);
  EXPECT_EQ(read, 'x');
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(WriteFile, NamesTheFileAndTheReason) {
  const TemporaryFolder folder;
  write_file(folder / "file", "x");
  const auto message = [](const fs::path& file) -> std::string {
    try {
      write_file(file, "x");
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };

  EXPECT_EQ(message(folder.path()), folder.path().string() + ": cannot be written: it is a folder");
  EXPECT_EQ(message(folder / "file/below"),
            (folder / "file/below").string() + ": cannot be written: Not a directory");
  EXPECT_EQ(message("/dev/full"), "/dev/full: cannot be written: No space left on device");
}

TEST(RequireWritable, SaysWhatWritingWouldSayAndMakesNothing) {
  const TemporaryFolder folder;
  write_file(folder / "file", "kept");
  for (const fs::path& file : {fs::path(), folder / "file", folder / "new/deep/a.json",
                               fs::path("beside.json"), fs::path("/dev/stdout")})
    EXPECT_NO_THROW(require_writable(file)) << file;
  EXPECT_FALSE(fs::exists(folder / "new"));
  EXPECT_FALSE(fs::exists("beside.json"));
  EXPECT_EQ(read_file(folder / "file"), "kept");

  const auto message = [](const auto& action) -> std::string {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  for (const fs::path& file : {folder.path(), folder / "file/below"}) {
    const std::string said = message([&] { require_writable(file); });
    EXPECT_THAT(said, HasSubstr("cannot be written"));
    EXPECT_EQ(said, message([&] { write_file(file, "x"); }));
  }
}

TEST(ReadFile, NamesTheFileAndTheReason) {
  const TemporaryFolder folder;
  const std::string missing = (folder / "missing").string();
  const std::string path = folder.path().string();

  EXPECT_EQ(input_error([&] { read_file(missing); }),
            missing + ": cannot be read: No such file or directory");
  EXPECT_EQ(input_error([&] { read_file(path); }), path + ": is a folder, must be a file");
}

TEST(ReadFile, RefusesALargeFileBeforeReadingIt) {
  const TemporaryFolder folder;
  write_file(folder / "x", "");
  fs::resize_file(folder / "x", std::uintmax_t{1} << 40);  // a hole: it takes no space

  EXPECT_EQ(input_error([&] { read_file(folder / "x", Bytes(1 << 20)); }),
            (folder / "x").string() + ": is 1.00 TiB, must be at most 1.00 MiB");
}

/// Files that are not regular; no process opens the other end of the pipe.
class NoRegularFile : public testing::TestWithParam<const char*> {
 public:
  std::string make() const {
    const std::string file = (folder_ / "x").string();
    if (GetParam() == std::string("device")) return "/dev/zero";
    if (GetParam() == std::string("pipe")) {
      EXPECT_EQ(::mkfifo(file.c_str(), 0600), 0);
    }
    if (GetParam() == std::string("socket")) bind_to(file);
    return file;
  }

 private:
  static void bind_to(const std::string& file) {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    file.copy(address.sun_path, sizeof address.sun_path - 1);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::close(socket);
  }

  TemporaryFolder folder_;
};

TEST_P(NoRegularFile, IsRefusedByEveryReader) {
  const std::string file = make();
  const std::string refused = file + ": is not a regular file";
  EXPECT_EQ(input_error([&] { read_file(file); }), refused);
  EXPECT_EQ(input_error([&] { InputFile{file}; }), refused);
  EXPECT_EQ(input_error([&] { open_regular(file); }), refused);
}

INSTANTIATE_TEST_SUITE_P(Kinds, NoRegularFile, testing::Values("pipe", "socket", "device"));

/// Shells pass the output of <(...) like this.
TEST(ReadFile, ReadsAPipeThatThisProcessWasGiven) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  // More than a pipe holds: the reader waits for the writer, and the other way round.
  const std::string written(300'000, 'x');
  std::thread writer([&] {
    for (std::string_view rest = written; !rest.empty();) {
      const ssize_t count = ::write(ends[1], rest.data(), rest.size());
      if (count < 0) break;
      rest.remove_prefix(static_cast<std::size_t>(count));
    }
    ::close(ends[1]);
  });

  EXPECT_EQ(read_file("/dev/fd/" + std::to_string(ends[0])), written);

  writer.join();
  ::close(ends[0]);
}

TEST(WriteOwnFile, ReplacesALinkAndLeavesWhatItNamesAlone) {
  const TemporaryFolder folder;
  write_file(folder / "of-the-user", "precious");
  fs::create_symlink(folder / "of-the-user", folder / "job.yaml");

  write_own_file(folder / "job.yaml", "ours");

  EXPECT_FALSE(fs::is_symlink(folder / "job.yaml"));
  EXPECT_EQ(read_file(folder / "job.yaml"), "ours");
  EXPECT_EQ(read_file(folder / "of-the-user"), "precious");
}

TEST(WriteOwnFile, LeavesDevicesAlone) {
  const TemporaryFolder folder;
  const fs::path device = folder / "null";
  if (::mknod(device.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0)
    GTEST_SKIP() << "this user makes no devices";
  EXPECT_THROW(write_own_file(device, "x"), Error);
  EXPECT_TRUE(fs::is_character_file(device));
}

TEST(WriteOwnFile, TakesAFolderThatIsALink) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "scratch");
  fs::create_directory_symlink(folder / "scratch", folder / "run");

  write_own_file(folder / "run/job.yaml", "ours");

  EXPECT_TRUE(fs::is_symlink(folder / "run"));
  EXPECT_EQ(read_file(folder / "scratch/job.yaml"), "ours");
}

TEST(Unexpanded, SaysWhatToWriteForAHomeFolder) {
  const std::string home = std::getenv("HOME");
  EXPECT_THAT(unexpanded("~/runs/a").value(), HasSubstr("write " + home + "/runs/a"));
  EXPECT_THAT(unexpanded("~").value(), HasSubstr("write " + home));
  EXPECT_THAT(unexpanded("~other/x").value(), HasSubstr("~ is not expanded here"));
  for (const char* const path : {"./~/runs", "a~b", "runs/~", "/x", "", "price$5", "a$", "a$/b"})
    EXPECT_FALSE(unexpanded(path)) << path;
}

TEST(Unexpanded, TakesAVariableOnlyWhereThatIsAName) {
  const TemporaryFolder folder;
  for (const char* const path : {"$HOME/a", "${HOME}/a", "/scratch/$USER", "a/$_x/b"})
    EXPECT_THAT(unexpanded(path).value(), HasSubstr("variables are not expanded here")) << path;
  fs::create_directory(folder / "$HOME");
  EXPECT_FALSE(unexpanded((folder / "$HOME" / "new").string()));
  EXPECT_TRUE(unexpanded((folder / "$HOME" / "$new").string()));
}

TEST(Expand, ListsMatchingFilesInOrder) {
  const TemporaryFolder folder;
  for (const char* name : {"b.txt", "a.txt", "c.bin", "sub/d.txt", "sub2/e.txt"})
    write_file(folder / name, "x");
  fs::create_directory(folder / "folder.txt");

  const std::string root = folder.path().string();
  EXPECT_THAT(expand(root + "/*.txt"), ElementsAre(folder / "a.txt", folder / "b.txt"));
  EXPECT_THAT(expand(root + "/sub*/?.txt"),
              ElementsAre(folder / "sub/d.txt", folder / "sub2/e.txt"));
  EXPECT_THAT(expand(root + "/[bc].*"), ElementsAre(folder / "b.txt", folder / "c.bin"));
  EXPECT_THAT(expand(root + "/*.png"), ElementsAre());
}

TEST(Expand, LeavesAPlainPathAlone) {
  EXPECT_THAT(expand("no/such/file"), ElementsAre("no/such/file"));
}

TEST(Expand, TakesAnExistingNameForWhatItIs) {
  const TemporaryFolder folder;
  write_file(folder / "a[1].txt", "x");
  write_file(folder / "a1.txt", "x");

  EXPECT_THAT(expand((folder / "a[1].txt").string()), ElementsAre(folder / "a[1].txt"));
}

}  // namespace
}  // namespace trireme::io
