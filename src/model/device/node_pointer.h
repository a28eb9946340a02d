// Pointers to autograd nodes, whose type depends on the version of LibTorch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>

namespace trireme::model {

/// Whether nodes are held by std::shared_ptr, as in LibTorch 2.11, or by c10::intrusive_ptr, as in
/// 2.15.
inline constexpr bool kSharesNodes = std::is_same_v<decltype(torch::autograd::Edge::function),
                                                    std::shared_ptr<torch::autograd::Node>>;

template <class Node>
using NodePointer =
    std::conditional_t<kSharesNodes, std::shared_ptr<Node>, c10::intrusive_ptr<Node>>;

template <class Node>
NodePointer<Node> new_node() {
  if constexpr (kSharesNodes)
    return {new Node, [](auto* node) { deleteNode(node); }};  // torch::autograd's, where it exists
  else
    return c10::make_intrusive<Node>();
}

}  // namespace trireme::model
