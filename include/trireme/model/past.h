// KV cache: what layers keep of earlier pieces of a text that is run through the chain piece by
// piece, so that each token is computed once. For inference only, without gradients.
//
// Shapes: B texts, T tokens of a piece, S tokens that the piece attends to, G heads of keys and
// values, D values of a head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/layer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace trireme::model {

/// One layer's cache of a text: the number of its tokens, and in attention layers their keys and
/// values.
class Past {
 public:
  /// For texts of at most `most_tokens`, in which a token attends to the last `window` tokens,
  /// itself included; without a window, to all before it.
  explicit Past(std::int64_t most_tokens, std::optional<std::int64_t> window = {})
      : most_tokens_(most_tokens), window_(window) {}

  /// Tokens of the pieces so far: the position of the next piece's first token.
  std::int64_t tokens() const { return tokens_; }
  /// Whether each token of a piece of `piece` tokens attends to all before it.
  bool sees_all(std::int64_t piece) const {
    return tokens_ + piece <= window_.value_or(tokens_ + piece);
  }

  struct Seen {
    at::Tensor k_BGSD, v_BGSD;  ///< views of the cache, valid until the next piece
  };
  /// Appends keys and values [B, T, G, D] of the next piece, and returns all that its tokens attend
  /// to. Memory is allocated with the first piece. Call once per piece.
  Seen see(const at::Tensor& k_BTGD, const at::Tensor& v_BTGD);
  /// Bool [T, S]: which of the S tokens from see() each token of the piece attends to.
  at::Tensor mask(std::int64_t piece, std::int64_t seen, c10::Device device) const;

  /// Counts a piece of `tokens` tokens as done.
  void advance(std::int64_t tokens) { tokens_ += tokens; }
  /// Starts a new text; keeps the memory.
  void clear() { tokens_ = kept_ = 0; }

 private:
  /// Makes room for `more` tokens after the cached ones. With a window only those stay that the
  /// next token attends to.
  void make_room(const at::Tensor& like_BTGD, std::int64_t more);

  std::int64_t most_tokens_;
  std::optional<std::int64_t> window_;
  std::int64_t tokens_ = 0;
  std::int64_t kept_ = 0;     ///< tokens in keys_ and values_: the last ones of the text
  at::Tensor keys_, values_;  ///< [B, G, capacity in tokens, D]
};

/// Interface of a layer of tokens, in addition to Layer, for generation with a KV cache.
class ForwardByPieces {
 public:
  virtual ~ForwardByPieces() = default;
  ForwardByPieces() = default;
  ForwardByPieces(const ForwardByPieces&) = delete;
  ForwardByPieces& operator=(const ForwardByPieces&) = delete;
  ForwardByPieces(ForwardByPieces&&) = delete;
  ForwardByPieces& operator=(ForwardByPieces&&) = delete;

  /// Computes x[i] of a text's next piece from its x[i-1], both [B, T, ...]: equal, up to rounding,
  /// to forward() at the last T tokens of the whole text. `past` holds the pieces before, and
  /// afterwards this one, too. Without a tape or dropout. The last layer returns the logits of the
  /// piece's last token alone, [B, 1, vocabulary].
  virtual Values forward_piece(const Values& input, const Context& context, Past& past) = 0;
};

}  // namespace trireme::model
