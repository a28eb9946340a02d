// SPDX-License-Identifier: Apache-2.0
#include "trireme/checkpoint/tensor_file.h"

#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/checkpoint/numbers.h"
#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

namespace trireme::checkpoint {
namespace {

using support::input_error;
using support::TemporaryFolder;
using testing::HasSubstr;

const std::vector<float> kMatrix{1, 2, 3, 4, 5, 6};
const std::vector<std::int64_t> kCount{7};

Manifest write_two(const std::filesystem::path& file) {
  TensorFile out(file, {{.name = "m \"1\"", .type = "F32", .sizes = {2, 3}, .size = Bytes(24)},
                        {.name = "n", .type = "I64", .sizes = {}, .size = Bytes(8)}});
  out.append(std::as_bytes(std::span(kMatrix)));
  out.append(std::as_bytes(std::span(kCount)));
  return out.finish();
}

// The format's own words: https://github.com/huggingface/safetensors#format.
TEST(TensorFile, IsASafetensorsFile) {
  const TemporaryFolder folder;
  write_two(folder / "a.safetensors");

  const std::string bytes = io::read_file(folder / "a.safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0U);
  const auto head = nlohmann::json::parse(bytes.substr(8, length));
  EXPECT_EQ(head["m \"1\""]["dtype"], "F32");
  EXPECT_EQ(head["m \"1\""]["shape"], (std::vector<int>{2, 3}));
  EXPECT_EQ(head["m \"1\""]["data_offsets"], (std::vector<int>{0, 24}));
  EXPECT_EQ(head["n"]["shape"], nlohmann::json::array());
  EXPECT_EQ(head["n"]["data_offsets"], (std::vector<int>{24, 32}));
  EXPECT_EQ(bytes.size(), 8 + length + 32);
  std::vector<float> matrix(6);
  std::memcpy(matrix.data(), bytes.data() + 8 + length, 24);
  EXPECT_EQ(matrix, kMatrix);
}

TEST(TensorFile, IsReadBackByItsManifest) {
  const TemporaryFolder folder;
  const Manifest manifest = write_two(folder / "a.safetensors");

  std::vector<float> matrix(6);
  read_tensor(folder.path(), "m", manifest.tensors.at("m \"1\""),
              std::as_writable_bytes(std::span(matrix)));

  EXPECT_EQ(matrix, kMatrix);
  EXPECT_EQ(manifest.tensors.at("n").sizes, std::vector<std::int64_t>());
}

TEST(TensorFile, MayBeLargerThanWhatIsFlushedAtOnce) {
  const TemporaryFolder folder;
  std::vector<std::int32_t> many((std::size_t{64} << 18) + 5);
  std::iota(many.begin(), many.end(), 0);
  const auto size = static_cast<std::int64_t>(many.size());
  TensorFile out(folder / "a",
                 {{.name = "n", .type = "I32", .sizes = {size}, .size = Bytes(4 * size)}});
  out.append(std::as_bytes(std::span(many)));
  const Manifest manifest = out.finish();

  std::vector<std::int32_t> read(many.size());
  read_tensor(folder.path(), "n", manifest.tensors.at("n"),
              std::as_writable_bytes(std::span(read)));

  EXPECT_TRUE(read == many);
}

// Else all of them, and other ranks, wait for the last flush.
TEST(TensorFile, FlushesManySmallTensorsAsOneLargeOne) {
  const TemporaryFolder folder;
  constexpr std::int64_t kMiB = 1 << 20, kSize = 24 * kMiB;
  const std::vector<std::byte> bytes(static_cast<std::size_t>(kSize));
  std::vector<Spec> specs;
  for (const char* const name : {"a", "b", "c"})
    specs.push_back({.name = name, .type = "U8", .sizes = {kSize}, .size = Bytes(kSize)});
  TensorFile out(folder / "a.safetensors", specs);
  const std::int64_t head = out.unflushed().count();

  std::vector<std::int64_t> unflushed;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    out.append(bytes);
    unflushed.push_back(out.unflushed().count() - head);
  }
  out.finish();

  EXPECT_EQ(unflushed, (std::vector<std::int64_t>{24 * kMiB, 48 * kMiB, (72 - 64) * kMiB}));
}

TEST(TensorFile, WithAnyBitChangedOrAnEndMissingIsRefused) {
  const TemporaryFolder folder;
  const Manifest manifest = write_two(folder / "a.safetensors");
  const std::string whole = io::read_file(folder / "a.safetensors");
  const Entry& entry = manifest.tensors.at("m \"1\"");
  std::vector<float> matrix(6);
  const auto reading = [&] {
    return input_error(
        [&] { read_tensor(folder.path(), "m", entry, std::as_writable_bytes(std::span(matrix))); });
  };
  for (int bit = 0; bit < 24 * 8; ++bit) {
    std::string damaged = whole;
    damaged[static_cast<std::size_t>(entry.offset.count() + bit / 8)] ^=
        static_cast<char>(1 << bit % 8);
    io::write_file(folder / "a.safetensors", damaged);
    EXPECT_THAT(reading(), HasSubstr("tensor 'm' is not what was written"));
  }
  io::write_file(folder / "a.safetensors",
                 whole.substr(0, static_cast<std::size_t>(entry.offset.count()) + 20));
  EXPECT_THAT(reading(), HasSubstr("a.safetensors: ends at byte"));
  std::filesystem::remove(folder / "a.safetensors");
  EXPECT_THAT(reading(), HasSubstr("a.safetensors: cannot be read"));
}

/// A file of one tensor with such a value.
Manifest write_value(const std::filesystem::path& file, float value, bool is_constant) {
  std::filesystem::remove(file);
  const std::vector<float> values{1, 2, value};
  TensorFile out(
      file,
      {{.name = "w", .type = "F32", .sizes = {3}, .size = Bytes(12), .is_constant = is_constant}});
  out.append(std::as_bytes(std::span(values)));
  return out.finish();
}

TEST(TensorFile, TakesNoValueThatIsNoNumber) {
  const TemporaryFolder folder;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const auto& [value, is_constant] :
       {std::pair{kNan, false}, {kNan, true}, {kInfinity, false}, {-kInfinity, false}}) {
    try {
      write_value(folder / "a", value, is_constant);
      FAIL() << value << " was written";
    } catch (const NoNumberError& error) {
      EXPECT_EQ(error.tensor, "w");
      EXPECT_EQ(error.found.place, 2);
      EXPECT_THAT(error.what(), HasSubstr("tensor 'w' would hold "));
    }
  }
}

// As in an attention mask. The entry tells readers whether there are any.
TEST(TensorFile, TakesInfinitiesThatAModelIsBuiltWith) {
  const TemporaryFolder folder;
  std::vector<float> values(3);
  Entry entry =
      write_value(folder / "a", -std::numeric_limits<float>::infinity(), true).tensors.at("w");
  EXPECT_TRUE(entry.is_constant);
  read_tensor(folder.path(), "w", entry, std::as_writable_bytes(std::span(values)));
  EXPECT_EQ(values[2], -std::numeric_limits<float>::infinity());
  entry.is_constant = false;
  EXPECT_THAT(input_error([&] {
                read_tensor(folder.path(), "w", entry, std::as_writable_bytes(std::span(values)));
              }),
              HasSubstr("a: tensor 'w' holds -inf at index 2: the run had diverged"));
  EXPECT_FALSE(write_value(folder / "a", 3, true).tensors.at("w").is_constant);
}

}  // namespace
}  // namespace trireme::checkpoint
