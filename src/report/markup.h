// HTML and SVG elements and the frame of a page. Everything is closed and escaped, so that a page
// is also well-formed XML.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::report {

using Attributes = std::initializer_list<std::pair<std::string_view, std::string>>;

/// Escapes text for use as content or attribute value.
std::string escaped(std::string_view text);

/// `<name key="value">content</name>`; values are escaped, content is not.
std::string element(std::string_view name, Attributes attributes, std::string_view content = "");

/// A length in pixels, rounded to a tenth.
std::string pixels(double length);

/// A tooltip for the enclosing element.
std::string title(std::string_view text);

/// Text with its anchor at (x, y): `how` names its classes, "tick end" for instance.
std::string label(double x, double y, std::string_view how, std::string_view text);
std::string line(double x1, double y1, double x2, double y2, std::string_view how);
/// An SVG path: `steps` is its data.
std::string path(std::string_view steps, std::string_view how, std::string_view inside = "");

/// An SVG picture that shrinks slightly with the window, then scrolls.
std::string svg(double width, double height, std::string_view name, std::string_view content);

/// A figure: what it is, how much, and lines of more about it.
std::string card(std::string_view what, std::string_view much,
                 const std::vector<std::string>& more);

/// A table whose first row is its header. Cells are text; numbers are right-aligned.
std::string html_table(const std::vector<std::vector<std::string>>& rows);

/// The rows without columns that are empty in every row: "", "-", "none", or a zero of any unit.
std::vector<std::vector<std::string>> without_empty_columns(
    std::vector<std::vector<std::string>> rows);

/// A whole page, light or dark as the reader's system is, without scripts or external resources.
std::string page(std::string_view name, std::string_view body);

}  // namespace trireme::report
