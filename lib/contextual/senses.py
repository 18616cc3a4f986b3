"""Sentences that give an ambiguous word its sense, written for this book.

In `SENTENCES` everything that tells the sense stands before the word, which comes last:
a model that reads from left to right can have seen nothing else. In `SENSE_AFTER` the
word comes first, after the same two words. `SWAPPED` has pairs of sentences of the very
same words, of which the later noun gives the sense.
"""

# word → sense → eight sentences
SENTENCES = {
    "bank": {
        "river": (
            "The river rose until the water covered the bank.",
            "We pulled the canoe out of the stream and rested on the bank.",
            "Otters had dug a den under the roots along the muddy bank.",
            "The fisherman cast his line from the shady bank.",
            "After the flood, willows were planted to hold the bank.",
            "The ferry drifted across the current and touched the far bank.",
            "Reeds and wild iris grew thick beside the brook, right up the bank.",
            "She swam against the stream until her feet found the bank.",
        ),
        "money": (
            "To pay for the house they asked for a loan from the bank.",
            "He counted the cash and carried it straight to the bank.",
            "Interest rates went up, so savers moved money into the bank.",
            "The cashier locked the vault and left the bank.",
            "Her salary is paid on the first of the month into the bank.",
            "The robbers wore masks when they walked into the bank.",
            "He lost his credit card and had to telephone the bank.",
            "Investors feared that the crisis would ruin the bank.",
        ),
    },
    "bat": {
        "animal": (
            "At dusk something with leathery wings left the cave, a small brown bat.",
            "Hanging upside down from the rafters of the barn was a bat.",
            "It finds moths in the dark by listening for echoes, as does every bat.",
            "The vampire turned into mist and then into a bat.",
            "The biologist set up a net at night and caught a rare bat.",
            "Owls, moths and foxes come out after sunset, and so does the bat.",
            "The only mammal that can truly fly is the bat.",
            "Rabies may be carried by a fox, a dog or a bat.",
        ),
        "club": (
            "The pitcher threw a fast ball, and the hitter swung his bat.",
            "Before the match the captain oiled his new cricket bat.",
            "He stepped up to home plate and lifted the bat.",
            "The umpire examined the cracked wood of the bat.",
            "For his birthday the boy wanted a glove, a ball and a bat.",
            "She hit a home run with her lucky bat.",
            "In the ninth inning the crowd heard the crack of the bat.",
            "The batter knocked dirt from his shoes with the end of his bat.",
        ),
    },
    "spring": {
        "season": (
            "The snow melted, the days grew longer, and at last it was spring.",
            "After a long winter the farmers look forward to the spring.",
            "The cherry trees of Kyoto are in blossom every spring.",
            "Lambs are born and swallows return in the spring.",
            "The school year ends in summer, but exams begin in spring.",
            "From autumn until March the garden sleeps, then comes spring.",
            "We plant the tulips in October and see them flower in the spring.",
            "Birds build their nests in April, in the middle of spring.",
        ),
        "coil": (
            "The mattress creaked because of a broken spring.",
            "Inside the clock a gear is driven by a tightly wound spring.",
            "The mechanic replaced the shock absorber and the spring.",
            "When the weight is removed, the steel returns to its shape like a spring.",
            "The force is proportional to the extension of the spring.",
            "The pen would not click, for it had lost its tiny spring.",
            "A toy mouse runs once you have wound up its spring.",
            "Engineers compress the metal wire into a spiral to make a spring.",
        ),
    },
}

SENSE_AFTER = {
    "river": (
        "The bank was steep and covered in reeds.",
        "The bank was washed away when the river rose.",
        "The bank sloped gently down to the stream.",
        "The bank was where the beavers had built their lodge.",
        "The bank was muddy, and our boots sank into it.",
        "The bank gave the fishermen some shade from willows.",
        "The bank had been raised to keep the flood out.",
        "The bank was lined with moored rowing boats.",
    ),
    "money": (
        "The bank was closed, so nobody could draw cash.",
        "The bank refused to lend them any more money.",
        "The bank had raised its interest rates again.",
        "The bank sent a letter about the overdrawn account.",
        "The bank was robbed by two men in masks.",
        "The bank had been founded by a rich merchant.",
        "The bank charged a fee for every foreign payment.",
        "The bank was saved by the government in the crisis.",
    ),
}

# a sentence, and the nouns of a river and of money that stand in it in either order
SWAPPED = (
    ("He talked about {} while he looked for {} at the bank.", "otters", "loans"),
    ("She forgot the {} and went to see the {} at the bank.", "river", "cashier"),
    ("They had come for the {} but found only {} near the bank.", "fish", "cash"),
    ("After a long day with {} we at last saw {} by the bank.", "water", "money"),
    ("He put down his {} and asked about the {} at the bank.", "canoe", "mortgage"),
    ("We argued about {} until we were shown the {} at the bank.", "willows", "vault"),
    ("The man with the {} was afraid of the {} at the bank.", "flood", "savings"),
    ("Tired of {}, she now worked with {} at the bank.", "fishing", "credit"),
)
