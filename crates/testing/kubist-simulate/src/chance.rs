//! The simulation's only source of chance: the SplitMix64 generator of Steele,
//! Lea and Flood (2014), which is a few lines and the same everywhere.

#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if there is none.
    pub fn below(&mut self, end: usize) -> usize {
        match end as u64 {
            0 => 0,
            end => (self.number() % end) as usize,
        }
    }

    /// True once in `times`, on average.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// How much of what was not synced outlives a crash. Real crashes are often all
/// or nothing; the mixtures are what finds bugs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Survival {
    Nothing,
    Everything,
    /// Each piece on its own, once in this many.
    OnceIn(usize),
}

impl Survival {
    pub fn draw(chance: &mut Chance) -> Survival {
        match chance.below(6) {
            0 => Survival::Nothing,
            1 => Survival::Everything,
            2 => Survival::OnceIn(4),
            _ => Survival::OnceIn(2),
        }
    }

    pub fn spares(self, chance: &mut Chance) -> bool {
        match self {
            Survival::Nothing => false,
            Survival::Everything => true,
            Survival::OnceIn(times) => chance.once_in(times),
        }
    }
}
