//! Functions with a selector of the ABI, declared once each: selector and signature.

/// Declares the functions of one address.
macro_rules! functions {
    ($(#[$doc:meta])* $($name:ident $selector:literal $signature:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs, reason = "the names are the functions' own")]
        pub enum Function { $($name,)* }

        impl Function {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The function of a selector.
            #[must_use]
            pub const fn of(selector: [u8; 4]) -> Option<Self> {
                match u32::from_be_bytes(selector) {
                    $($selector => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The selector.
            #[must_use]
            pub const fn selector(self) -> [u8; 4] {
                let selector: u32 = match self { $(Self::$name => $selector,)* };
                selector.to_be_bytes()
            }

            /// The signature, as the selector is made of it.
            #[must_use]
            pub const fn signature(self) -> &'static str {
                match self { $(Self::$name => $signature,)* }
            }
        }

        #[cfg(test)]
        mod selectors {
            use super::Function;

            #[test]
            fn are_those_of_the_signatures() {
                for &function in Function::ALL {
                    let expected = crate::abi::selector(function.signature());
                    assert_eq!(function.selector(), expected, "{function:?}");
                    assert_eq!(Function::of(expected), Some(function));
                }
            }
        }
    };
}

pub(crate) use functions;
