// SPDX-License-Identifier: Apache-2.0
#include "trireme/tier/file_relay.h"

#include <algorithm>

namespace trireme::tier {
namespace {

/// Splits the parts into pieces that fit a buffer.
std::vector<FilePart> pieces_of(std::span<const FilePart> parts, const EngineBuffers& engine) {
  const auto most = static_cast<std::int64_t>(engine.buffers()[0].size());
  std::vector<FilePart> pieces;
  for (const FilePart& part : parts) {
    for (std::int64_t done = 0; done < part.size; done += most) {
      pieces.push_back({.offset = part.offset + done,
                        .size = std::min(most, part.size - done),
                        .device = part.device + done});
    }
  }
  return pieces;
}

std::span<std::byte> bytes_in(std::size_t buffer, const FilePart& piece,
                              const EngineBuffers& engine) {
  return engine.buffers()[buffer].first(static_cast<std::size_t>(piece.size));
}

void relay_out(const std::vector<FilePart>& pieces, OffloadStore& store, EngineBuffers& engine) {
  const auto begin = [&](std::size_t i) {
    if (i >= pieces.size()) return;
    engine.begin_out(i % 2, pieces[i].device, static_cast<std::size_t>(pieces[i].size));
  };
  begin(0);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    begin(i + 1);  // into the buffer that was written to the store before
    engine.wait(i % 2);
    store.write_part(pieces[i].offset, bytes_in(i % 2, pieces[i], engine));
  }
}

void relay_in(const std::vector<FilePart>& pieces, OffloadStore& store, EngineBuffers& engine) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i >= 2) engine.wait(i % 2);
    store.read_part(pieces[i].offset, bytes_in(i % 2, pieces[i], engine));
    engine.begin_in(i % 2, pieces[i].device, static_cast<std::size_t>(pieces[i].size));
  }
  for (std::size_t buffer = 0; buffer < std::min<std::size_t>(2, pieces.size()); ++buffer)
    engine.wait(buffer);
}

}  // namespace

void relay(CopyDirection direction, std::span<const FilePart> parts, OffloadStore& store,
           EngineBuffers& engine) {
  (direction == CopyDirection::kOut ? relay_out : relay_in)(pieces_of(parts, engine), store,
                                                            engine);
}

}  // namespace trireme::tier
