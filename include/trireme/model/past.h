// A text that a chain is given piece by piece, so that each token passes it once: what layers keep
// of the pieces before. For inference alone; no gradient passes.
//
// Shapes: B texts, T tokens of a piece, S tokens that it sees, G heads of keys and values, D values
// of a head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/layer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace trireme::model {

/// What one layer keeps of a text: the number of its tokens, and where the layer attends their keys
/// and values.
class Past {
 public:
  /// For texts of at most `most_tokens`, in which a token sees the last `window`, itself included;
  /// nothing: all before it.
  explicit Past(std::int64_t most_tokens, std::optional<std::int64_t> window = {})
      : most_tokens_(most_tokens), window_(window) {}

  /// Of the pieces that have passed: the position of the next one's first token.
  std::int64_t tokens() const { return tokens_; }
  /// Whether each token of a piece of so many sees all before it.
  bool sees_all(std::int64_t piece) const {
    return tokens_ + piece <= window_.value_or(tokens_ + piece);
  }

  struct Seen {
    at::Tensor k_BGSD, v_BGSD;  ///< views of what is kept, until the next piece
  };
  /// Keeps keys and values [B, T, G, D] of the next piece, and gives all that its tokens see. The
  /// memory is taken with the first piece. Once per piece.
  Seen see(const at::Tensor& k_BTGD, const at::Tensor& v_BTGD);
  /// Bool [T, S]: which of the S that see() gave each token of the piece sees.
  at::Tensor mask(std::int64_t piece, std::int64_t seen, c10::Device device) const;

  /// A piece of so many tokens has passed.
  void advance(std::int64_t tokens) { tokens_ += tokens; }
  /// The text begins anew; the memory stays.
  void clear() { tokens_ = kept_ = 0; }

 private:
  /// Room for `more` tokens behind those that are kept. Of a window only the tokens stay that the
  /// next one sees.
  void make_room(const at::Tensor& like_BTGD, std::int64_t more);

  std::int64_t most_tokens_;
  std::optional<std::int64_t> window_;
  std::int64_t tokens_ = 0;
  std::int64_t kept_ = 0;     ///< in keys_ and values_, the last ones of the text
  at::Tensor keys_, values_;  ///< [B, G, tokens for which there is room, D]
};

/// What a layer of tokens offers beside Layer, so that a model goes on with a text without
/// computing all of it again for every token.
class ForwardByPieces {
 public:
  virtual ~ForwardByPieces() = default;
  ForwardByPieces() = default;
  ForwardByPieces(const ForwardByPieces&) = delete;
  ForwardByPieces& operator=(const ForwardByPieces&) = delete;
  ForwardByPieces(ForwardByPieces&&) = delete;
  ForwardByPieces& operator=(ForwardByPieces&&) = delete;

  /// x[i] of a text's next piece from its x[i-1], both [B, T, ...]: what forward() gives for the
  /// last T tokens of the whole text, to rounding. `past` holds the pieces before, then this one,
  /// too. Without a tape or dropout. The last layer gives the logits of the piece's last token
  /// alone, [B, 1, vocabulary].
  virtual Values forward_piece(const Values& input, const Context& context, Past& past) = 0;
};

}  // namespace trireme::model
