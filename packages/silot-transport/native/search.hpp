// Points in a tree of boxes, each with the least price of its points: whose cost plus price is least
// is found without looking at most of the others. Pays in few dimensions.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "kernels.hpp"

namespace silot {
namespace SILOT_SET {

struct Candidate {
    double value;
    Int column;
};

inline bool is_before(const Candidate& p, const Candidate& q) {
    return p.value < q.value || (p.value == q.value && p.column < q.column);
}

// The least `size` of the values that were offered since the last `clear`.
class Shortlist {
  public:
    void clear(Int size) {
        size_ = static_cast<std::size_t>(size);
        items_.clear();
        bar_ = std::numeric_limits<double>::max() / 4;
    }

    // No value from here on changes the list.
    double bar() const { return bar_; }

    void offer(double value, Int column) {
        items_.push_back({value, column});
        if (items_.size() == 2 * size_ || items_.size() == size_) cut();
    }

    // In the order of their columns.
    const std::vector<Candidate>& sorted() {
        cut();
        std::sort(items_.begin(), items_.end(),
                  [](const Candidate& p, const Candidate& q) { return p.column < q.column; });
        return items_;
    }

  private:
    void cut() {
        if (items_.size() < size_) return;
        std::nth_element(items_.begin(), items_.begin() + (size_ - 1), items_.end(), is_before);
        items_.resize(size_);
        bar_ = items_.back().value;
    }

    std::size_t size_ = 0;
    double bar_ = 0.0;
    std::vector<Candidate> items_;
};

class PricedTree {
  public:
    PricedTree(Int m, Int d, Int order, const double* y) : m_(m), d_(d), order_(order), index_(m) {
        for (Int j = 0; j < m; ++j) index_[j] = j;
        nodes_.reserve(static_cast<std::size_t>(m) / 4 + 2);
        build(y, 0, m);
    }

    // Neighbours follow one another.
    const std::vector<Int>& order() const { return index_; }

    void reprice(const double* price) {
        // Children have larger numbers than their parents.
        for (std::size_t k = nodes_.size(); k-- > 0;) {
            Node& node = nodes_[k];
            if (node.right != 0) {
                node.least = std::min(nodes_[k + 1].least, nodes_[node.right].least);
                continue;
            }
            node.least = std::numeric_limits<double>::max() / 8;
            double* prices = leaf(node) + static_cast<std::size_t>(d_) * W;
            for (Int u = 0; u < W; ++u) {
                const bool is_point = node.begin + u < node.end;
                prices[u] = is_point ? price[index_[node.begin + u]] : node_far;
                if (is_point) node.least = std::min(node.least, prices[u]);
            }
        }
    }

    // Offers the columns of least cost plus price, or some near them where `most` are looked at;
    // returns how many were.
    std::int64_t search(const double* x, Shortlist& list,
                        std::int64_t most = std::numeric_limits<std::int64_t>::max()) const {
        struct Due {
            double bound;
            Int node;
        };
        Due stack[128];
        Int top = 0;
        std::int64_t looked = 0;
        stack[top++] = {bound(x, 0), 0};
        while (top > 0 && looked < most) {
            const Due due = stack[--top];
            if (due.bound >= list.bar()) continue;
            const Node& node = nodes_[due.node];
            if (node.right == 0) {
                look(x, node, list);
                looked += node.end - node.begin;
                continue;
            }
            Due near{bound(x, due.node + 1), due.node + 1}, far{bound(x, node.right), node.right};
            if (far.bound < near.bound) std::swap(near, far);
            stack[top++] = far;
            stack[top++] = near;
        }
        return looked;
    }

  private:
    static constexpr Int W = 16;
    static constexpr double node_far = std::numeric_limits<double>::max() / 8;

    struct Node {
        Int begin, end;
        Int right = 0;      // the left child is the next node; 0 at leaves
        Int block = 0;      // of a leaf, among all leaves
        double least = 0.0;  // price
    };

    double* leaf(const Node& node) {
        return leaves_.data() + static_cast<std::size_t>(node.block) * (d_ + 1) * W;
    }
    const double* leaf(const Node& node) const {
        return leaves_.data() + static_cast<std::size_t>(node.block) * (d_ + 1) * W;
    }

    Int build(const double* y, Int begin, Int end) {
        const Int own = static_cast<Int>(nodes_.size());
        nodes_.push_back({begin, end});
        boxes_.resize(boxes_.size() + 2 * static_cast<std::size_t>(d_));
        double* box = boxes_.data() + static_cast<std::size_t>(own) * 2 * d_;
        Int widest = 0;
        double width = -1.0;
        for (Int k = 0; k < d_; ++k) {
            double low = std::numeric_limits<double>::max(), high = -low;
            for (Int u = begin; u < end; ++u) {
                const double value = y[static_cast<std::size_t>(index_[u]) * d_ + k];
                low = std::min(low, value);
                high = std::max(high, value);
            }
            box[k] = low;
            box[d_ + k] = high;
            if (high - low > width) {
                width = high - low;
                widest = k;
            }
        }
        if (end - begin <= W) {
            const std::size_t size = static_cast<std::size_t>(d_ + 1) * W;
            nodes_[own].block = static_cast<Int>(leaves_.size() / size);
            leaves_.resize(leaves_.size() + size, 0.0);
            double* out = leaf(nodes_[own]);
            for (Int u = begin; u < end; ++u)
                for (Int k = 0; k < d_; ++k)
                    out[static_cast<std::size_t>(k) * W + (u - begin)] =
                        y[static_cast<std::size_t>(index_[u]) * d_ + k];
            return own;
        }
        const Int middle = begin + (end - begin) / 2;
        const auto at = [&](Int j) { return y[static_cast<std::size_t>(j) * d_ + widest]; };
        std::nth_element(index_.begin() + begin, index_.begin() + middle, index_.begin() + end,
                         [&](Int i, Int j) { return at(i) < at(j) || (at(i) == at(j) && i < j); });
        build(y, begin, middle);
        const Int right = build(y, middle, end);
        nodes_[own].right = right;
        return own;
    }

    double cost(double squared) const { return order_ == 2 ? squared : std::sqrt(squared); }

    double bound(const double* x, Int k) const {
        const double* box = boxes_.data() + static_cast<std::size_t>(k) * 2 * d_;
        double sum = 0.0;
        for (Int c = 0; c < d_; ++c) {
            const double below = box[c] - x[c], above = x[c] - box[d_ + c];
            const double off = std::max(std::max(below, above), 0.0);
            sum += off * off;
        }
        return cost(sum) + nodes_[k].least;
    }

    void look(const double* x, const Node& node, Shortlist& list) const {
        const double* SILOT_RESTRICT at = leaf(node);
        double value[W] = {};
        for (Int k = 0; k < d_; ++k) {
            const double here = x[k];
            SILOT_ROLLED
            for (Int u = 0; u < W; ++u) {
                const double difference = here - at[k * W + u];
                value[u] += difference * difference;
            }
        }
        const double* SILOT_RESTRICT prices = at + static_cast<std::size_t>(d_) * W;
        double low = node_far;
        SILOT_ROLLED
        for (Int u = 0; u < W; ++u) {
            value[u] = cost(value[u]) + prices[u];
            low = value[u] < low ? value[u] : low;
        }
        if (low >= list.bar()) return;
        for (Int u = 0; u < node.end - node.begin; ++u)
            if (value[u] < list.bar()) list.offer(value[u], index_[node.begin + u]);
    }

    Int m_, d_, order_;
    std::vector<Int> index_;
    std::vector<Node> nodes_;
    std::vector<double> boxes_, leaves_;
};

// Calls work(begin, end) of parts of 0 to count, on so many threads; parts share nothing.
template <class Work>
void on_threads(Int count, Int threads, const Work& work) {
    constexpr Int part = 64;
    std::atomic<Int> next{0};
    const auto run = [&] {
        for (Int begin; (begin = next.fetch_add(part)) < count;)
            work(begin, std::min(count, begin + part));
    };
    std::vector<std::thread> others;
    const Int most = std::min(threads, (count + part - 1) / part);
    for (Int k = 1; k < most; ++k) others.emplace_back(run);
    run();
    for (auto& one : others) one.join();
}

}  // namespace SILOT_SET
}  // namespace silot
