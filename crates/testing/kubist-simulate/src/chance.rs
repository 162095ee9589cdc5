//! The simulation's only source of randomness: the SplitMix64 generator of Steele, Lea and Flood (2014),
//! which is short and equal on every machine.

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

    /// A random number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        match end as u64 {
            0 => 0,
            end => (self.number() % end) as usize,
        }
    }

    /// True with probability 1 / `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// How much unsynced data survives a crash. Real crashes often keep all or nothing; the mixtures find bugs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Survival {
    Nothing,
    Everything,
    /// Each piece survives with probability 1 in this number.
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
