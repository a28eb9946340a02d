// SPDX-License-Identifier: Apache-2.0
#include "control_message.h"

#include "trireme/core/error.h"

#include <algorithm>
#include <cstring>

namespace trireme::comm {
namespace {

/// The fixed-size header; all ranks run the same program on the same kind of machine.
struct Head {
  ControlMessage::Kind kind;
  Stream stream;
  std::uint64_t sequence;
  std::uint64_t bytes;
  int state;
  int rank;
};

}  // namespace

std::vector<std::byte> encode(const ControlMessage& message) {
  const Head head{message.kind,  message.stream, message.sequence,
                  message.bytes, message.state,  message.rank};
  const std::size_t text = std::min(message.text.size(), kLargestControlMessage - sizeof head);
  std::vector<std::byte> bytes(sizeof head + text);
  std::memcpy(bytes.data(), &head, sizeof head);
  if (text > 0) std::memcpy(bytes.data() + sizeof head, message.text.data(), text);
  return bytes;
}

ControlMessage decode(ConstBytes bytes) {
  Head head{};
  ensure(bytes.size() >= sizeof head, "a control message has its fixed part");
  std::memcpy(&head, bytes.data(), sizeof head);
  const ConstBytes text = bytes.subspan(sizeof head);
  return {head.kind,
          head.stream,
          head.sequence,
          head.bytes,
          head.state,
          head.rank,
          std::string(reinterpret_cast<const char*>(text.data()), text.size())};
}

}  // namespace trireme::comm
