// SPDX-License-Identifier: Apache-2.0
#include "trireme/record/events.h"

#include "support/temporary_folder.h"

#include "trireme/core/error.h"
#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <map>

namespace trireme::record {
namespace {

using support::TemporaryFolder;

/// Computed bit by bit, so that it shares nothing with the table of the writer.
std::uint32_t slow_masked_crc(const std::string& bytes) {
  std::uint32_t rest = ~0U;
  for (const char c : bytes) {
    rest ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) rest = (rest & 1) != 0 ? rest >> 1 ^ 0x82F63B78U : rest >> 1;
  }
  return std::rotr(~rest, 15) + 0xA282EAD8U;
}

std::uint64_t number(const std::string& bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

/// The payloads of a file whose lengths and checksums are right.
std::vector<std::string> records(const std::string& file) {
  std::vector<std::string> payloads;
  for (std::size_t at = 0; at < file.size();) {
    const std::string length = file.substr(at, 8);
    const std::string payload = file.substr(at + 12, number(length));
    EXPECT_EQ(number(file.substr(at + 8, 4)), slow_masked_crc(length));
    EXPECT_EQ(number(file.substr(at + 12 + payload.size(), 4)), slow_masked_crc(payload));
    payloads.push_back(payload);
    at += 16 + payload.size();
  }
  return payloads;
}

struct Field {
  std::uint64_t value = 0;  ///< varint, or the bits of a fixed field
  std::string bytes;
};

/// A protobuf message's fields by number.
std::multimap<std::uint64_t, Field> fields(const std::string& message) {
  std::multimap<std::uint64_t, Field> found;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.at(at++));
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.size()) {
    const std::uint64_t key = varint();
    Field field;
    if ((key & 7) == 0) {
      field.value = varint();
    } else {
      const std::size_t size = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : varint();
      field.bytes = message.substr(at, size);
      field.value = size <= 8 ? number(field.bytes) : 0;
      at += size;
    }
    found.emplace(key >> 3, field);
  }
  return found;
}

const Field& field(const std::multimap<std::uint64_t, Field>& message, std::uint64_t number) {
  EXPECT_EQ(message.count(number), 1U) << "field " << number;
  return message.find(number)->second;
}

const EventFileStart kStart{.wall_time = Seconds(1700000000.25), .host = "oar"};

TEST(EventFile, IsNamedAfterTimeAndHost) {
  const TemporaryFolder folder;

  const EventFile first(folder / "events", kStart);
  const EventFile second(folder / "events", kStart);

  EXPECT_EQ(first.file(), folder / "events/events.out.tfevents.1700000000.oar");
  EXPECT_EQ(second.file(), folder / "events/events.out.tfevents.1700000000.oar.1");
}

// The bytes are those of tensorboard 2.21's own RecordWriter for the same three events.
TEST(EventFile, IsByteForByteWhatTensorBoardWrites) {
  const TemporaryFolder folder;
  EventFileStart start = kStart;
  start.first_step = 300;
  EventFile events(folder.path(), start);

  events.append({.step = 300, .values = {{"train_loss", 2.5}, {"tokens_per_s", 0.1}}},
                Seconds(1700000001.5));

  std::string hex;
  for (const char c : io::read_file(events.file())) {
    hex += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    hex += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  EXPECT_EQ(hex,
            "1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e743a32338d2fe9"
            "100000000000000095fbfe180900001040fc54d94110ac023a0208016b3b88f1"
            "36000000000000004f578cef0900006040fc54d94110ac022a280a110a0a747261696e5f6c6f7373"
            "15000020400a130a0c746f6b656e735f7065725f7315cdcccc3d53836083");
}

TEST(EventFile, ReadsBackThroughAnIndependentReader) {
  const TemporaryFolder folder;
  EventFile events(folder.path(), kStart);

  events.append({.step = 1, .values = {{"train_loss", 5.5452}}}, Seconds(1700000002.5));
  events.append({.step = 1'000'000'000'000, .values = {{std::string(200, 'n'), -1e-3}}},
                Seconds(1700000003.75));

  const auto payloads = records(io::read_file(events.file()));
  ASSERT_EQ(payloads.size(), 3U);
  EXPECT_EQ(field(fields(payloads[0]), 3).bytes, "brain.Event:2");
  const auto last = fields(payloads[2]);
  EXPECT_EQ(std::bit_cast<double>(field(last, 1).value), 1700000003.75);
  EXPECT_EQ(field(last, 2).value, 1'000'000'000'000U);
  const auto value = fields(field(fields(field(last, 5).bytes), 1).bytes);
  EXPECT_EQ(field(value, 1).bytes, std::string(200, 'n'));
  EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(field(value, 2).value)), -1e-3F);
}

TEST(EventFile, IsCompleteAfterEveryPoint) {
  const TemporaryFolder folder;
  EventFile events(folder.path(), kStart);

  for (std::size_t step = 1; step <= 3; ++step) {
    events.append({.step = static_cast<std::int64_t>(step), .values = {{"loss", 1}}}, Seconds(0));
    EXPECT_EQ(records(io::read_file(events.file())).size(), step + 1);
  }
}

TEST(EventFile, SaysWhereItCannotWrite) {
  const TemporaryFolder folder;
  io::write_file(folder / "taken", "");

  try {
    const EventFile events(folder / "taken", kStart);
    FAIL() << "opened below a file";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr((folder / "taken").string()));
  }
}

}  // namespace
}  // namespace trireme::record
