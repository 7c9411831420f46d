// Binding of rows of bits: tables in which each column has two values, a common step apart.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <optional>
#include <utility>
#include <vector>

#include "bindings/binding.hpp"
#include "gram/tile_request.hpp"

namespace mercer {
namespace {

using Words = std::vector<uint64_t>;

// Packs a dense table into words. Returns whether every entry is exactly one of the two values of its column.
template <class Real>
bool fill_dense(const AnyMatrix& table, const double* low, const double* high, int64_t n_words, Words& words) {
    const auto n = static_cast<int64_t>(table.shape(0)), p = static_cast<int64_t>(table.shape(1));
    const auto* data = static_cast<const Real*>(table.data());
    const int64_t row_stride = table.stride(0), stride = table.stride(1);
    for (int64_t i = 0; i < n; ++i) {
        uint64_t* row = words.data() + i * n_words;
        bool has_two_values = true;
        for (int64_t j = 0; j < p; ++j) {
            const auto value = static_cast<double>(data[i * row_stride + j * stride]);
            const bool is_low = value == low[j];
            has_two_values &= is_low || value == high[j];
            row[j / 64] |= uint64_t{!is_low} << (j % 64);
        }
        if (!has_two_values) return false;
    }
    return true;
}

// Packs the entries of a CSR table into words. Returns false if an index is out of range or occurs twice in a row. Each
// index is checked when it is read.
template <class Index, class Pointer>
bool fill_sparse(const Index* indices, const Pointer* indptr, int64_t n, int64_t n_entries, int64_t n_features,
                 int64_t n_words, Words& words) {
    int64_t entry = 0;
    if (indptr[0] != 0) return false;
    for (int64_t i = 0; i < n; ++i) {
        const auto end = static_cast<int64_t>(indptr[i + 1]);
        if (end < entry || end > n_entries) return false;
        for (; entry < end; ++entry) {
            const auto column = static_cast<int64_t>(indices[entry]);
            if (column < 0 || column >= n_features) return false;
            uint64_t& word = words[static_cast<std::size_t>(i * n_words + column / 64)];
            const uint64_t bit = uint64_t{1} << (column % 64);
            if (word & bit) return false;
            word |= bit;
        }
    }
    return true;
}

nb::object owned_rows(bool has_two_values, Words words, std::size_t n, int64_t n_words) {
    if (!has_two_values) return nb::none();
    return nb::cast(owned_as(std::move(words), n, static_cast<std::size_t>(n_words)));
}

void check_features(int64_t n_features) {
    require(0 < n_features && n_features <= kMostBits, "rows of bits have between 1 and 1048575 features");
}

nb::object bit_rows(AnyMatrix table, ConstDoubles low, ConstDoubles high) {
    const auto n = static_cast<std::size_t>(table.shape(0));
    check_features(static_cast<int64_t>(table.shape(1)));
    require(table.shape(1) == low.shape(0) && table.shape(1) == high.shape(0),
            "low and high must have a number for each column");
    const Scalar scalar = scalar_of(table.dtype());
    const int64_t n_words = words_of(static_cast<int64_t>(table.shape(1)));
    Words words(n * static_cast<std::size_t>(n_words));
    bool has_two_values = false;
    {
        const ReleasedGil released;
        has_two_values = scalar == Scalar::f32 ? fill_dense<float>(table, low.data(), high.data(), n_words, words)
                                               : fill_dense<double>(table, low.data(), high.data(), n_words, words);
    }
    return owned_rows(has_two_values, std::move(words), n, n_words);
}

nb::object bit_rows_of_entries(AnyVector indices, AnyVector indptr, int64_t n_features) {
    const bool wide = is_wide(indices.dtype()), wide_pointers = is_wide(indptr.dtype());
    const auto n_entries = static_cast<int64_t>(indices.shape(0)), n = static_cast<int64_t>(indptr.shape(0)) - 1;
    check_features(n_features);
    require(n >= 0, "indptr must have at least one element");
    const int64_t n_words = words_of(n_features);
    Words words(static_cast<std::size_t>(n * n_words));
    bool has_two_values = false;
    {
        const ReleasedGil released;
        auto fill = [&]<class Index, class Pointer>() {
            return fill_sparse(static_cast<const Index*>(indices.data()), static_cast<const Pointer*>(indptr.data()), n,
                               n_entries, n_features, n_words, words);
        };
        if (wide)
            has_two_values = wide_pointers ? fill.template operator()<int64_t, int64_t>()
                                           : fill.template operator()<int64_t, int32_t>();
        else
            has_two_values = wide_pointers ? fill.template operator()<int32_t, int64_t>()
                                           : fill.template operator()<int32_t, int32_t>();
    }
    return owned_rows(has_two_values, std::move(words), static_cast<std::size_t>(n), n_words);
}

}  // namespace

void bind_bit_form(nb::module_& m) {
    m.def("bit_rows", &bit_rows, nb::arg("table").noconvert(), nb::arg("low").noconvert(), nb::arg("high").noconvert());
    m.def("bit_rows_of_entries", &bit_rows_of_entries, nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(),
          nb::arg("n_features"));
}

}  // namespace mercer
