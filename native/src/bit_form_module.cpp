// Binding of rows of bits: tables whose columns take two values each, a step apart.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <optional>
#include <utility>
#include <vector>

#include "mercer/binding.hpp"
#include "mercer/tile_request.hpp"

namespace mercer {
namespace {

using Words = std::vector<uint64_t>;

template <class Real>
bool fill_dense(const AnyMatrix& table, const double* base, double step, int64_t n_words, Words& words) {
    const auto n = static_cast<int64_t>(table.shape(0)), p = static_cast<int64_t>(table.shape(1));
    const auto* data = static_cast<const Real*>(table.data());
    const int64_t row_stride = table.stride(0), stride = table.stride(1);
    for (int64_t i = 0; i < n; ++i) {
        uint64_t* row = words.data() + i * n_words;
        bool known = true;
        for (int64_t j = 0; j < p; ++j) {
            const double moved = static_cast<double>(data[i * row_stride + j * stride]) - base[j];
            const bool one = moved == step;
            known &= one || moved == 0.0;
            row[j / 64] |= uint64_t{one} << (j % 64);
        }
        if (!known) return false;
    }
    return true;
}

template <class Index, class Pointer>
bool fill_sparse(const Index* indices, const Pointer* indptr, int64_t n, int64_t n_words, Words& words) {
    for (int64_t i = 0; i < n; ++i)
        for (auto e = indptr[i]; e < indptr[i + 1]; ++e) {
            uint64_t& word = words[static_cast<std::size_t>(i * n_words + indices[e] / 64)];
            const uint64_t bit = uint64_t{1} << (indices[e] % 64);
            if (word & bit) return false;  // twice the step
            word |= bit;
        }
    return true;
}

nb::object owned_rows(bool known, Words words, std::size_t n, int64_t n_words) {
    if (!known) return nb::none();
    return nb::cast(owned_as(std::move(words), n, static_cast<std::size_t>(n_words)));
}

nb::object bit_rows(AnyMatrix table, ConstDoubles base, double step) {
    const auto n = static_cast<std::size_t>(table.shape(0));
    require(table.shape(1) == base.shape(0), "the base must have a number for each column");
    const Scalar scalar = scalar_of(table.dtype());
    const int64_t n_words = words_of(static_cast<int64_t>(table.shape(1)));
    Words words(n * static_cast<std::size_t>(n_words));
    bool known = false;
    {
        nb::gil_scoped_release release;
        known = scalar == Scalar::f32 ? fill_dense<float>(table, base.data(), step, n_words, words)
                                      : fill_dense<double>(table, base.data(), step, n_words, words);
    }
    return owned_rows(known, std::move(words), n, n_words);
}

nb::object bit_rows_of_entries(AnyVector indices, AnyVector indptr, int64_t n_features) {
    const bool wide = is_wide(indices.dtype()), wide_pointers = is_wide(indptr.dtype());
    const auto n_entries = static_cast<int64_t>(indices.shape(0)), n = static_cast<int64_t>(indptr.shape(0)) - 1;
    require(n >= 0 && n_features >= 0, "indptr must have at least one element, n_features must not be negative");
    auto at = [](const void* data, bool is_64, int64_t i) {
        return is_64 ? static_cast<const int64_t*>(data)[i] : int64_t{static_cast<const int32_t*>(data)[i]};
    };
    int64_t last = at(indptr.data(), wide_pointers, 0);
    require(last == 0, "indptr must start at 0");
    for (int64_t i = 1; i <= n; ++i) {
        const int64_t next = at(indptr.data(), wide_pointers, i);
        require(next >= last && next <= n_entries, "indptr must not decrease nor pass the number of entries");
        last = next;
    }
    for (int64_t e = 0; e < last; ++e) {
        const int64_t column = at(indices.data(), wide, e);
        require(column >= 0 && column < n_features, "indices must lie between 0 and the number of features");
    }
    const int64_t n_words = words_of(n_features);
    Words words(static_cast<std::size_t>(n * n_words));
    bool known = false;
    {
        nb::gil_scoped_release release;
        auto fill = [&]<class Index, class Pointer>() {
            return fill_sparse(static_cast<const Index*>(indices.data()), static_cast<const Pointer*>(indptr.data()), n,
                               n_words, words);
        };
        if (wide)
            known = wide_pointers ? fill.template operator()<int64_t, int64_t>()
                                  : fill.template operator()<int64_t, int32_t>();
        else
            known = wide_pointers ? fill.template operator()<int32_t, int64_t>()
                                  : fill.template operator()<int32_t, int32_t>();
    }
    return owned_rows(known, std::move(words), static_cast<std::size_t>(n), n_words);
}

}  // namespace

void bind_bit_form(nb::module_& m) {
    m.def("bit_rows", &bit_rows, nb::arg("table").noconvert(), nb::arg("base").noconvert(), nb::arg("step"));
    m.def("bit_rows_of_entries", &bit_rows_of_entries, nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(),
          nb::arg("n_features"));
}

}  // namespace mercer
