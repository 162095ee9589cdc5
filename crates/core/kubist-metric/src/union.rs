//! Disjoint sets: which elements are connected.

#[derive(Clone, Debug, Default)]
pub struct Sets(Vec<u32>);

impl Sets {
    pub fn new(count: u32) -> Sets {
        Sets((0..count).collect())
    }

    /// Returns the number of a new element in its own set.
    pub fn add(&mut self) -> u32 {
        let element = self.0.len() as u32;
        self.0.push(element);
        element
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The smallest element in the set of `element`.
    pub fn of(&mut self, mut element: u32) -> u32 {
        while self.0[element as usize] != element {
            let above = self.0[self.0[element as usize] as usize];
            self.0[element as usize] = above;
            element = above;
        }
        element
    }

    pub fn join(&mut self, one: u32, other: u32) {
        let (one, other) = (self.of(one), self.of(other));
        self.0[one.max(other) as usize] = one.min(other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn connected_elements_have_the_same_smallest_element() {
        let mut random = StdRng::seed_from_u64(2);
        for _ in 0..500 {
            let count = random.random_range(1..60);
            let (mut sets, mut labels) = (Sets::new(count), (0..count).collect::<Vec<u32>>());
            for _ in 0..random.random_range(0..60) {
                let (one, other) = (random.random_range(0..count), random.random_range(0..count));
                sets.join(one, other);
                let (kept, gone) = (labels[one as usize], labels[other as usize]);
                let (kept, gone) = (kept.min(gone), kept.max(gone));
                labels.iter_mut().filter(|label| **label == gone).for_each(|label| *label = kept);
            }
            assert_eq!((0..count).map(|element| sets.of(element)).collect::<Vec<_>>(), labels);
        }
    }
}
