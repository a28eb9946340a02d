// Files as Hugging Face's libraries write them, made here byte by byte from the format's own words:
// https://github.com/huggingface/safetensors#format.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/checkpoint/tensor_set.h"

#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/checkpoint/tensor_file.h"
#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <span>

namespace trireme::checkpoint {
namespace {

using support::input_error;
using support::TemporaryFolder;
using testing::HasSubstr;

std::string file_of(const std::string& head, const std::string& bytes) {
  std::string length(8, '\0');
  const std::uint64_t count = head.size();
  std::memcpy(length.data(), &count, 8);
  return length + head + bytes;
}

/// "w" [2] in bfloat16, "count" a scalar.
std::string two_tensors() {
  return file_of(R"({"__metadata__": {"format": "pt", "by": "someone"},
                    "w": {"dtype": "BF16", "shape": [2], "data_offsets": [8, 12]},
                    "count": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]}})",
                 std::string("\x07\0\0\0\0\0\0\0\x80\x3f\0\x40", 12));
}

TEST(TensorSet, OfAFileFindsTypeSizesAndBytes) {
  const TemporaryFolder folder;
  io::write_file(folder / "w.safetensors", two_tensors());

  const TensorSet set = find_tensors(folder / "w.safetensors");

  ASSERT_EQ(set.tensors.size(), 2U);
  EXPECT_EQ(set.tensors.at("w").type, "BF16");
  EXPECT_EQ(set.tensors.at("w").sizes, std::vector<std::int64_t>{2});
  std::int64_t count = 0;
  read_tensor(set.folder, "count", set.tensors.at("count"),
              std::as_writable_bytes(std::span(&count, 1)));
  EXPECT_EQ(count, 7);
  std::uint16_t w[2] = {};
  read_tensor(set.folder, "w", set.tensors.at("w"), std::as_writable_bytes(std::span(w)));
  EXPECT_EQ(w[0], 0x3f80);  // 1
  EXPECT_EQ(w[1], 0x4000);  // 2
}

TEST(TensorSet, OfAFolderIsItsOneFile) {
  const TemporaryFolder folder;
  io::write_file(folder / "model.safetensors", two_tensors());
  EXPECT_EQ(find_tensors(folder.path()).tensors.size(), 2U);
}

TEST(TensorSet, OfAFolderIsAllFilesOfItsIndex) {
  const TemporaryFolder folder;
  io::write_file(folder / "model-00001-of-00002.safetensors", two_tensors());
  io::write_file(folder / "model-00002-of-00002.safetensors",
                 file_of(R"({"b": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}})", "x"));
  io::write_file(folder / "model.safetensors.index.json",
                 R"({"metadata": {"total_size": 13},
                     "weight_map": {"w": "model-00001-of-00002.safetensors",
                                    "count": "model-00001-of-00002.safetensors",
                                    "b": "model-00002-of-00002.safetensors"}})");

  const TensorSet set = find_tensors(folder.path());

  ASSERT_EQ(set.tensors.size(), 3U);
  EXPECT_EQ(set.tensors.at("b").file, "model-00002-of-00002.safetensors");
  std::byte b{};
  read_tensor(set.folder, "b", set.tensors.at("b"), std::span(&b, 1));
  EXPECT_EQ(b, std::byte{'x'});
}

TEST(TensorSet, HasWhatATensorFileWrote) {
  const TemporaryFolder folder;
  const std::vector<float> values{1, 2, 3};
  TensorFile out(folder / "a.safetensors",
                 {{.name = "v", .type = "F32", .sizes = {3}, .size = Bytes(12)}});
  out.append(std::as_bytes(std::span(values)));
  Entry written = out.finish().tensors.at("v");

  const TensorSet set = find_tensors(folder / "a.safetensors");

  written.digest = "";
  EXPECT_EQ(set.tensors.at("v"), written);
}

struct Bad {
  std::string name, bytes, message;
};

void PrintTo(const Bad& each, std::ostream* out) {
  *out << each.name;
}

class BadTensorFile : public testing::TestWithParam<Bad> {};

TEST_P(BadTensorFile, IsRefusedWithFileAndReason) {
  const TemporaryFolder folder;
  io::write_file(folder / "w.safetensors", GetParam().bytes);
  const std::string message = input_error([&] { find_tensors(folder / "w.safetensors"); });
  EXPECT_THAT(message, HasSubstr((folder / "w.safetensors").string()));
  EXPECT_THAT(message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadTensorFile,
    testing::Values(
        Bad{"short", "abc", "is not a safetensors file: it has 3 bytes"},
        Bad{"pickle", "PK\x03\x04" + std::string(4, '\0') + " a zip of pickles",
            "is not a safetensors file: a head of"},
        Bad{"cut_off",
            file_of(R"({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})", "1234"),
            "w.data_offsets[1] is 8"},
        Bad{"other_sizes",
            file_of(R"({"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}})", "12345678"),
            "are 8 bytes, but type and shape make 12"},
        Bad{"unknown_type",
            file_of(R"({"w": {"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}})", "1"),
            "has the type F4"},
        Bad{"huge",
            file_of(R"({"w": {"dtype": "F32", "shape": [4294967296, 4294967296],
                              "data_offsets": [0, 0]}})",
                    ""),
            "more bytes than can be counted"},
        // "Byte buffer needs to be entirely indexed, and cannot contain holes. This prevents the
        // creation of polyglot files": the format's own words.
        Bad{"same_bytes",
            file_of(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                        "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})",
                    "1234"),
            "b begins at byte 0, must begin at 4"},
        Bad{"some_of_the_same_bytes",
            file_of(R"({"b": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]},
                        "a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}})",
                    "123456"),
            "b begins at byte 2, must begin at 4"},
        Bad{"hole_before_the_first",
            file_of(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}})", "12"),
            "a begins at byte 1, must begin at 0"},
        Bad{"hole_between",
            file_of(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
                        "b": {"dtype": "U8", "shape": [1], "data_offsets": [2, 3]}})",
                    "123"),
            "b begins at byte 2, must begin at 1"},
        Bad{"bytes_behind_the_last",
            file_of(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}})", "12"),
            "its tensors end at byte 1, but it has 2 after its head"},
        Bad{"bytes_without_tensors", file_of("{}", "1"), "its tensors end at byte 0"}),
    [](const auto& each) { return each.param.name; });

TEST(TensorSet, OfAFolderWithoutSafetensorsSaysWhatIsExpected) {
  const TemporaryFolder folder;
  io::write_file(folder / "pytorch_model.bin", "x");
  EXPECT_THAT(input_error([&] { find_tensors(folder.path()); }),
              HasSubstr("has neither model.safetensors nor model.safetensors.index.json"));
}

TEST(TensorSet, OfAFileThatIsNotThereSaysSo) {
  EXPECT_THAT(input_error([] { find_tensors("no/such.safetensors"); }),
              HasSubstr("no/such.safetensors"));
}

// Their order in the head says nothing, and tensors of no bytes may stand anywhere between others.
TEST(TensorSet, TakesTensorsInAnyOrderThatCoverTheirBytes) {
  const TemporaryFolder folder;
  io::write_file(folder / "w.safetensors",
                 file_of(R"({"c": {"dtype": "U8", "shape": [0, 3], "data_offsets": [2, 2]},
                             "b": {"dtype": "U8", "shape": [1], "data_offsets": [2, 3]},
                             "a": {"dtype": "BF16", "shape": [], "data_offsets": [0, 2]},
                             "d": {"dtype": "F32", "shape": [0], "data_offsets": [3, 3]}})",
                         "123"));
  EXPECT_EQ(find_tensors(folder / "w.safetensors").tensors.size(), 4U);
  io::write_file(folder / "none.safetensors", file_of("{}", ""));
  EXPECT_EQ(find_tensors(folder / "none.safetensors").tensors.size(), 0U);
}

}  // namespace
}  // namespace trireme::checkpoint
