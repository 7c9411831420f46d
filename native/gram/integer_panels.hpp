// Packs rows of integers for tiles as [unit][row]. One more unit of each row holds its additive term.
#pragma once

#include "gram/dense_panels.hpp"
#include "gram/tiles.hpp"

namespace mercer::MERCER_ISA {

// Whether integer tiles can evaluate the program: it must have one pass, which is a squared distance or an inner
// product over all features. Rounding bounds rely on this condition; src/mercer/gram/encodings/integers.py tests the
// same one.
inline bool are_integers(const TileRequest& request) {
    const Program& program = request.program;
    if (request.integer_tile == nullptr || program.n_passes != 1) return false;
    const Pass& pass = program.passes[0];
    return pass.pairing == Pairing::product && pass.columns == nullptr && !(pass.with_norms && pass.with_offsets);
}

// Panels of integer rows. Distances are exact until they are scaled. A tile of distances holds -1/2 of each distance
// and norms of 0, so that norm + norm - 2 tile is the distance. A tile of inner products holds the products.
struct IntegerPanels {
    using Unit = int32_t;

    static int64_t size(const RowsView& rows) { return rows.integers.n_units + 1; }

    // Bytes on the right are packed minus 128; the lift of the left row (128 times its sum) compensates for this.
    template <int Width>
    static void pack(const TileRequest& request, bool is_left, int64_t first, int count, const double*, int32_t* packed,
                     float* norms, float*, int64_t) {
        const RowsView& rows = is_left ? request.left : request.right;
        const auto [units, n_units, bytes, step] = rows.integers;
        const int64_t stride = n_units + kRowSums;
        pack_dense_rows<int32_t, int32_t, Width>(rows, first, count, units, stride, 1, n_units, nullptr, packed);
        if (bytes && !is_left)
            for (int64_t j = 0; j < n_units * Width; ++j) packed[j] ^= static_cast<int32_t>(0x80808080);
        const bool is_distance = request.program.passes[0].with_norms;
        for (int r = 0; r < Width; ++r) {
            norms[r] = 0;
            int32_t row_term = 0;
            if (r < count) {
                const int32_t* sums = units + rows.row(first + r) * stride + n_units;
                row_term = (is_distance ? sums[kSquares] : 0) - (is_left ? 2 * sums[kLift] : 0);
            }
            packed[n_units * Width + r] = row_term;
        }
    }

    static void tile(const TileRequest& request, const Pass&, const int32_t* left, const int32_t* right, float* tile) {
        const auto [units, n_units, bytes, step] = request.left.integers;
        request.integer_tile(left, right, n_units, bytes, static_cast<float>(-0.5 * step * step), tile);
    }
};

}  // namespace mercer::MERCER_ISA
